"""Updates inside of backward: each gradient is used, and freed, as soon as it is there.

NOTE [ Updates in backward ]
1. A parameter is updated when its gradient is complete, by a hook that then drops the gradient: of all gradients, only
   those on their way exist at a time. Whoever needs the old values after that notices by the version of the storage.
2. The norm of all gradients is known only when all were there. Clipping by it takes two passes over the graph: one that
   measures and drops each gradient, one that scales and uses it.
3. The optimizer owns the updates, and parameters know them weakly: they end when it does, and nothing goes in circles.
4. ``optimizer.step()`` ends a step: it updates what has a gradient left. A second gradient before that is one that was
   meant to be accumulated, and an error if it was not announced: the first is gone.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

from ..autograd.grad_mode import no_grad
from ..autograd.tensor import Tensor
from ..kernels import backend
from ..saved_tensors.mutation import before_write
from .lbfgs import LBFGS
from .optimizer import Group, Optimizer


def in_backward(
    optimizer: Optimizer,
    *,
    max_norm: float | None = None,
    error_if_nonfinite: bool = False,
    accumulation_steps: int = 1,
) -> InBackward:
    """Let an optimizer update each parameter during backward, and free its gradient at once.

    Args:
        optimizer: any but L-BFGS. Parameters that require no gradient, or are added later, are updated by ``step()``.
        max_norm: clip the gradients by their norm as one vector: ``loss.backward()`` becomes ``handle.backward(loss)``,
            which goes through the graph twice.
        error_if_nonfinite: whether a norm that is infinite or no number is an error; nothing was updated then.
        accumulation_steps: how many gradients each parameter gets before ``step()``. The first ones are kept and added
            up, as without this; the last one is not kept.

    Returns:
        A handle: ``remove()`` ends it, or leaving it as a context, or the end of the optimizer.

    Raises:
        TypeError: for L-BFGS, which evaluates the loss several times a step.
        ValueError: for clipping together with accumulation, which has to keep all gradients: use ``clip_grad_norm_``.

    The loop stays as it is, ``optimizer.step()`` included: that ends the step. The results are those of the same loop
    without, bit for bit; what has to see all gradients at once, such as ``clip_grad_norm_``, finds none.

    >>> import stowgrad
    >>> model = stowgrad.nn.Linear(3, 1)
    >>> optimizer = stowgrad.optim.SGD(model.parameters(), lr=0.1)
    >>> handle = in_backward(optimizer)
    >>> model(stowgrad.ones(2, 3)).sum().backward()  # updates
    >>> model.weight.grad is None
    True
    >>> optimizer.step()
    """
    if isinstance(optimizer, LBFGS):
        raise TypeError("in_backward: L-BFGS evaluates the loss several times a step, and can't update during backward")
    if accumulation_steps < 1:
        raise ValueError(f"in_backward: expected at least 1 accumulation step, got {accumulation_steps}")
    if max_norm is not None and accumulation_steps > 1:
        raise ValueError(
            "in_backward: clipping accumulated gradients needs all of them at once; accumulate without in_backward,"
            " then call clip_grad_norm_ and step()"
        )
    return InBackward(optimizer, max_norm, error_if_nonfinite, accumulation_steps)


class InBackward:
    """What `in_backward` returns."""

    def __init__(
        self, optimizer: Optimizer, max_norm: float | None, error_if_nonfinite: bool, accumulation_steps: int
    ) -> None:
        self._optimizer = optimizer
        self._max_norm = max_norm
        self._error_if_nonfinite = error_if_nonfinite
        self._updates = updates = _Updates(optimizer, max_norm is not None, accumulation_steps)
        handles: list[Any] = [optimizer.register_step_post_hook(updates.end_step)]
        for number, group in enumerate(optimizer.param_groups):
            for param in group["params"]:
                if param.requires_grad:
                    updates.params.append(param)
                    handles.append(param.register_post_accumulate_grad_hook(_Hook(updates, number)))
        self._finalizer = weakref.finalize(optimizer, _remove, handles)
        self._finalizer.atexit = False

    def remove(self) -> None:
        """Let the optimizer be as before."""
        self._finalizer()

    def __enter__(self) -> InBackward:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def backward(self, loss: Tensor, gradient: Tensor | None = None) -> float | None:
        """``loss.backward(gradient)``; with ``max_norm`` in two passes.

        Returns:
            The norm of all gradients before clipping, or None without ``max_norm``.

        Raises:
            RuntimeError: for a norm that is not finite, if asked for; and for gradients that were there before, which
                the first pass would drop.
        """
        if self._max_norm is None:
            loss.backward(gradient)
            return None
        updates = self._updates
        if any(param.grad is not None for param in updates.params):
            raise RuntimeError("in_backward: there are gradients from before, which clipping in two passes would drop")
        updates.squares = []
        try:
            updates.phase = "measure"
            # nobody else's gradients: they would be added twice
            loss.backward(gradient, retain_graph=True, inputs=updates.params)
            norm = updates.norm()
            if self._error_if_nonfinite and not math.isfinite(norm):
                raise RuntimeError(
                    f"The total norm of gradients is {norm}, so it cannot be clipped. To scale the gradients anyway,"
                    " set `error_if_nonfinite=False`"
                )
            factor = float(self._max_norm) / (norm + 1e-6)
            updates.factor = factor if factor < 1.0 or math.isnan(factor) else 1.0
            updates.phase = "update"
            loss.backward(gradient)
        finally:
            updates.phase = "free"
        return norm


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()


class _Updates:
    """What arrives during backward, and what is done with it; belongs to an optimizer."""

    def __init__(self, optimizer: Optimizer, clips: bool, most: int) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._clips = clips
        self._most = most
        self._lock = threading.Lock()  # each device has a thread of its own in backward
        self._seen: dict[Tensor, int] = {}
        self.params: list[Tensor] = []
        self.squares: list[float] = []
        self.phase = "free"
        self.factor = 1.0

    def norm(self) -> float:
        """Of all gradients that were measured."""
        if any(map(math.isnan, self.squares)):
            return math.nan
        return math.sqrt(math.fsum(self.squares)) if all(map(math.isfinite, self.squares)) else math.inf

    def arrived(self, param: Tensor, group_number: int) -> None:
        """Do with a parameter's gradient what is its turn."""
        grad, optimizer = param.grad, self._optimizer()
        if grad is None or optimizer is None:
            return
        if self._clips and self.phase == "free":
            raise RuntimeError("in_backward: with max_norm, call handle.backward(loss) in place of loss.backward()")
        if self.phase == "measure":
            square = float(backend(grad.device.type).sum_of_squares(grad._array))
            with self._lock:
                self.squares.append(square)
            param.grad = None
            return
        with self._lock:
            count = self._seen[param] = self._seen.get(param, 0) + 1
        if count > self._most:
            raise RuntimeError(
                f"in_backward: a parameter of shape {list(param.shape)} got its gradient number {count} in one step."
                " Call optimizer.step() after each update, or announce gradients that add up by accumulation_steps"
            )
        if count == self._most:
            self._use(param, grad, optimizer, group_number)

    def _use(self, param: Tensor, grad: Tensor, optimizer: Optimizer, group_number: int) -> None:
        group: Group = optimizer.param_groups[group_number]
        with no_grad():  # no phase of its own: to a profiler, the end of one is the end of a step
            if self.factor != 1.0:
                backend(grad.device.type).scale_(grad._array, self.factor)
            optimizer._prepare([(param, grad, group)])
            before_write(param._storage)
            optimizer._update(param, grad, group)
        param.grad = None

    def end_step(self, *called: Any) -> None:
        """What the optimizer calls at the end of a step."""
        self._seen.clear()
        self.factor = 1.0


class _Hook:
    """What a parameter calls when its gradient is complete."""

    frees_gradient = True  # whoever wants to see all gradients can tell why there are none

    def __init__(self, updates: _Updates, group_number: int) -> None:
        self._updates = weakref.ref(updates)
        self._group_number = group_number  # loading a state makes new groups

    def __call__(self, param: Tensor) -> None:
        updates = self._updates()
        if updates is not None:
            updates.arrived(param, self._group_number)
