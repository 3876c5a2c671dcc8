"""Weight norm and spectral norm as PyTorch had them first: a hook before every forward writes the weight anew.

`parametrizations` has both in a better form; these keep the names of old states: ``weight_g`` and ``weight_v``, or
``weight_orig``, ``weight_u`` and ``weight_v``.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from ...autograd import functions
from ...autograd.creation import randn
from ...autograd.frames import user_level
from ...autograd.functions.normalization import _weight_norm, norm_except_dim
from ...autograd.grad_mode import no_grad
from ...autograd.recomputing import update_state
from ...autograd.tensor import Tensor
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from ..parameter import Parameter
from ..uninitialized import is_lazy

M = TypeVar("M", bound=Module)


class _Rewritten:
    """The hook that writes a weight.

    Args:
        name: the weight's.
    """

    what: str

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, module: Any, training: bool) -> Tensor:
        """The weight."""
        raise NotImplementedError

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))

    def parameter(self, module: Module) -> Parameter:
        """The weight as it is, which has to be a parameter without such a hook.

        Raises:
            RuntimeError: if it has one.
            ValueError: if there is no weight, or none with a shape.
        """
        if _hooks(module, type(self), self.name):
            raise RuntimeError(f"Cannot register two {self.what} hooks on the same parameter {self.name}")
        weight = module._parameters.get(self.name)
        if weight is None:
            raise ValueError(f"{self.what} cannot be applied as parameter `{self.name}` is None")
        if is_lazy(weight):
            raise ValueError(
                f"The module passed to {self.what} can't have uninitialized parameters. Make sure to run the dummy"
                " forward before"
            )
        return weight

    def begin(self, module: Module) -> None:
        """Write the weight from now on."""
        with no_grad():
            setattr(module, self.name, self.compute(module, False))
        module.register_forward_pre_hook(self)

    def end(self, module: Module, *names: str) -> None:
        """Make a parameter of the weight again, and drop what it was made of."""
        with no_grad():
            weight = self.compute(module, False)
        delattr(module, self.name)
        for name in names:
            delattr(module, self.name + name)
        module.register_parameter(self.name, Parameter(weight.detach()))
        for number in _hooks(module, type(self), self.name):
            del module._forward_pre_hooks[number]


def _hooks(module: Module, kind: type[_Rewritten], name: str) -> list[int]:
    hooks = module._forward_pre_hooks.items()
    return [number for number, hook in hooks if isinstance(hook.function, kind) and hook.function.name == name]


def _remove(module: M, kind: type[_Rewritten], name: str, *parts: str) -> M:
    numbers = _hooks(module, kind, name)
    if not numbers:
        raise ValueError(f"{kind.what} of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks[numbers[0]].function
    hook.end(module, *parts)
    return module


# -- weight norm -------------------------------------------------------------------------------------------------------


class WeightNorm(_Rewritten):
    """The hook of `weight_norm`."""

    what = "weight_norm"

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = -1 if dim is None else dim

    def compute(self, module: Any, training: bool) -> Tensor:
        direction, size = getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g")
        result: Tensor = _weight_norm(direction, size, self.dim)
        return result


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Make a weight of its magnitude and its direction, parameters ``weight_g`` and ``weight_v``.

    Warns that `parametrizations.weight_norm` is the better way; the arguments are the same.

    Raises:
        RuntimeError: if that was done already.
        ValueError: if there is no such parameter.
    """
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=user_level(),
    )
    hook = WeightNorm(name, dim)
    weight = hook.parameter(module)
    delattr(module, name)
    with no_grad():
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach()))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook.begin(module)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make a plain parameter of a weight with `weight_norm` again.

    Raises:
        ValueError: if it has none.
    """
    return _remove(module, WeightNorm, name, "_g", "_v")


# -- spectral norm -----------------------------------------------------------------------------------------------------


class SpectralNorm(_Rewritten):
    """The hook of `spectral_norm`."""

    what = "spectral_norm"

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def as_matrix(self, weight: Tensor) -> Tensor:
        """The weight with one row for each output."""
        if self.dim:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        result: Tensor = weight.reshape(weight.shape[0], -1)
        return result

    def _iterate(self, matrix: Tensor, u: Tensor, v: Tensor) -> None:
        for _ in range(self.n_power_iterations):
            v.copy_(F.normalize(functions.mv(matrix.t(), u), dim=0, eps=self.eps))
            u.copy_(F.normalize(functions.mv(matrix, v), dim=0, eps=self.eps))

    def compute(self, module: Any, training: bool) -> Tensor:
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.as_matrix(weight)
        if training:
            update_state(lambda: self._iterate(matrix, u, v))
            u, v = u.clone(), v.clone()  # the next forward writes over them, and backward needs these
        result: Tensor = weight / functions.dot(u, functions.mv(matrix, v))
        return result


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value; `parametrizations.spectral_norm` is the better way.

    The weight becomes the parameter ``weight_orig``; the vectors of the power iteration are ``weight_u`` and
    ``weight_v``. The arguments are those of the other one.

    Raises:
        RuntimeError: if that was done already.
        ValueError: if there is no such parameter, or the number of iterations is none.
    """
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = hook.parameter(module)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    sizes = hook.as_matrix(weight.detach()).shape
    for part, size in (("u", sizes[0]), ("v", sizes[1])):
        start = randn(size, dtype=weight.dtype, device=weight.device)
        module.register_buffer(f"{name}_{part}", F.normalize(start, dim=0, eps=eps))
    hook.begin(module)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make a plain parameter of a weight with `spectral_norm` again.

    Raises:
        ValueError: if it has none.
    """
    return _remove(module, SpectralNorm, name, "_u", "_v", "_orig")
