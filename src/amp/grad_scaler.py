"""`GradScaler`: losses so large that gradients in float16 do not vanish (Micikevicius et al., 2018)."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from ..autograd.creation import full
from ..autograd.tensor import Tensor
from ..kernels import backend
from ..memory import Device, as_device, pool

_FLOAT32 = np.dtype(np.float32)


class OptimizerLike(Protocol):
    """An optimizer."""

    param_groups: list[dict[str, Any]]

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Update the parameters."""


class _Stage(enum.Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Progress:
    """How far an optimizer is since the last ``update``, and for each device whether its gradients overflowed."""

    def __init__(self) -> None:
        self.stage = _Stage.READY
        self.found: dict[Device, bool] = {}


class GradScaler:
    """Scales losses, unscales gradients, and leaves steps with overflown gradients out, like ``torch.amp.GradScaler``.

    Args:
        device: the type of device that is trained on; ``"cuda"`` where there is none turns the scaler off.
        init_scale: what losses are multiplied by at first.
        growth_factor: what the scale is multiplied by after ``growth_interval`` steps without overflow.
        backoff_factor: what the scale is multiplied by after an overflow.
        growth_interval: see ``growth_factor``.
        enabled: False for a scaler that does nothing.

    Raises:
        AssertionError: for factors on the wrong side of 1.

    >>> import stowgrad
    >>> w = stowgrad.nn.Parameter(stowgrad.ones(2))
    >>> optimizer = stowgrad.optim.SGD([w], lr=0.5)
    >>> scaler = GradScaler("cpu")
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.detach()
    tensor([0., 0.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not _has_cuda():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._scale = float(np.float32(init_scale))
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._was_used = False
        self._progress: dict[int, _Progress] = {}

    # -- a step --------------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A loss times the scale; tuples, lists and iterables of losses too.

        Raises:
            ValueError: for anything else.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._was_used = True
            scale = full((), self._scale, dtype=_FLOAT32, device=outputs.device)
            if outputs.dtype.itemsize > 2 or outputs.dim() == 0:
                return outputs * scale
            with np.errstate(over="ignore"):  # the scale may be more than float16 can hold, and so may be a result
                return (outputs.float() * scale).to(outputs.dtype)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: OptimizerLike) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for clipping them before ``step``.

        Raises:
            RuntimeError: if that was done since the last ``update``, or comes after ``step``.
            ValueError: for gradients in float16: parameters should be in float32.
            AssertionError: if nothing was scaled.
        """
        if not self._enabled:
            return
        self._check_use("unscale_")
        progress = self._of(optimizer)
        if progress.stage is _Stage.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if progress.stage is _Stage.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        gradients = [
            param.grad for group in optimizer.param_groups for param in group["params"] if param.grad is not None
        ]
        if any(gradient.dtype == np.float16 for gradient in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        factor = float(np.float32(1.0 / self._scale)) if self._scale else math.inf
        for gradient in gradients:
            array = gradient._array
            values = array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array
            overflown = backend(gradient.device.type).unscale(values, factor=factor)
            gradient._storage.version += 1
            progress.found[gradient.device] = progress.found.get(gradient.device, False) or overflown
        progress.stage = _Stage.UNSCALED

    def step(self, optimizer: OptimizerLike, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, unless a gradient is infinite or no number; unscales them if need be.

        Returns:
            What the optimizer's step returned, None if it was left out.

        Raises:
            RuntimeError: for a closure, and a second step since the last ``update``.
            AssertionError: if nothing was scaled, or there were no gradients.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_use("step")
        progress = self._of(optimizer)
        if progress.stage is _Stage.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage is _Stage.READY:
            self.unscale_(optimizer)
        if not progress.found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        returned = None if any(progress.found.values()) else optimizer.step(*args, **kwargs)
        progress.stage = _Stage.STEPPED
        return returned

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next step: smaller after an overflow, larger after enough steps without one.

        Args:
            new_scale: the scale to go on with, in place of that.

        Raises:
            AssertionError: if nothing was scaled or unscaled, and for a tensor that is no single number.
        """
        if not self._enabled:
            return
        self._check_use("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError("new_scale should be a float or a 1-element tensor with requires_grad=False.")
            self._scale = float(np.float32(float(new_scale)))
        else:
            found = [overflown for progress in self._progress.values() for overflown in progress.found.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(found))
        self._progress = {}

    def _adapt(self, overflown: bool) -> None:
        if overflown:
            self._scale = float(np.float32(self._scale * self._backoff_factor))
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = np.float64(self._scale) * self._growth_factor
            if grown <= np.finfo(np.float32).max:
                self._scale = float(np.float32(grown))
            self._growth_tracker = 0

    def _of(self, optimizer: OptimizerLike) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    def _check_use(self, name: str) -> None:
        if not self._was_used:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or"
                " outputs) earlier in the iteration."
            )

    # -- settings and state --------------------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1 if the scaler is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """See the class."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See the class."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """See the class."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See the class."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """See the class."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See the class."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, settings and the steps since it last changed; empty if the scaler is off. Call it after ``update``."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            RuntimeError: for an empty one.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


def _has_cuda() -> bool:
    try:
        pool(as_device("cuda"))
    except (ImportError, RuntimeError):
        return False
    return True
