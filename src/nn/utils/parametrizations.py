"""Parametrizations that are used often: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import functions
from ...autograd.creation import ones, randn, zeros
from ...autograd.functions.linear_algebra import factorizations, solving
from ...autograd.functions.normalization import _weight_norm, norm_except_dim
from ...autograd.grad_mode import no_grad
from ...autograd.recomputing import update_state
from ...autograd.tensor import Tensor
from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from .parametrize import register_parametrization


def _tensor_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -- weight norm -------------------------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """``v * (g / norm(v))``, with the norm over all dimensions but one (Salimans and Kingma, 2016)."""

    dim: int

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        result: Tensor = _weight_norm(weight_v, weight_g, self.dim)
        return result

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight of its magnitude and its direction: `original0` and `original1` of its parametrization.

    Args:
        module: what has the weight.
        name: its name.
        dim: the dimension whose slices have a magnitude each; None for a single one.

    Returns:
        The module. States with PyTorch's old names, ``weight_g`` and ``weight_v``, are read too.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_old_names(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_old_names)
    return module


# -- spectral norm -----------------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iterations follow (Miyato et al., 2018)."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.dim()
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = self._as_matrix(weight.detach())
                for name, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                    start = randn(size, dtype=weight.dtype, device=weight.device)
                    self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
                self._power_method(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        if self.dim:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        result: Tensor = weight.flatten(1)
        return result

    def _power_method(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            self._u.copy_(F.normalize(functions.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(functions.mv(matrix.t().conj(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            update_state(lambda: self._power_method(matrix.detach(), self.n_power_iterations))
        # Copies: the next forward in training writes over the vectors, which backward needs as they are.
        u, v = self._u.clone(), self._v.clone()
        sigma = functions.vdot(u, functions.mv(matrix, v))
        result: Tensor = weight / sigma
        return result

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value.

    Args:
        module: what has the weight.
        name: its name.
        n_power_iterations: how many steps each call in training goes on.
        eps: the least norm.
        dim: the dimension of the outputs: 0, and 1 for transposed convolutions.

    Returns:
        The module.

    Raises:
        ValueError: if there is no such weight, or the number of iterations is none.
    """
    weight = _tensor_of(module, name)
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


# -- orthogonal matrices -----------------------------------------------------------------------------------------------


def _identity_like(x: Tensor, size: int) -> Tensor:
    diagonal = ones(size, dtype=x.dtype, device=x.device)
    result: Tensor = functions.diag(diagonal)
    return result


def _made_orthogonal(x: Tensor) -> Tensor:
    reflections, tau = factorizations.geqrf(x)
    q = factorizations.householder_product(reflections, tau)
    result: Tensor = q * reflections.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return result


class _Orthogonal(Module):
    """An orthogonal (or unitary) matrix from one that is free (Lezcano-Casado, 2019)."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.dtype.kind == "c" and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.transpose(-1, -2) if wide else X
        q = self._of_householder(x) if self.orthogonal_map == "householder" else self._of_skew(x)
        if self.use_trivialization:
            q = self.base @ q
        return q.transpose(-1, -2) if wide else q

    def _of_householder(self, x: Tensor) -> Tensor:
        a = x.tril(-1)
        tau = 2.0 / (1.0 + (a * a).sum(-2))
        signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
        result: Tensor = factorizations.householder_product(a, tau) * signs.unsqueeze(-2)
        return result

    def _of_skew(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        x = x.tril()
        if n != k:
            more = zeros(*x.shape[:-2], n, n - k, dtype=x.dtype, device=x.device)
            x = functions.cat([x, more], -1)
        a = x - x.transpose(-1, -2).conj()
        if self.orthogonal_map == "matrix_exp":
            q = solving.matrix_exp(a)
        else:
            eye = _identity_like(a, n)
            q = solving.solve(eye - a * 0.5, eye + a * 0.5)
        return q if n == k else q[..., :k]  # type: ignore[no-any-return]

    def right_inverse(self, Q: Tensor) -> Tensor:
        if tuple(Q.shape) != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {list(self.shape)}."
                f" Got a tensor of shape {list(Q.shape)}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.transpose(-1, -2) if wide else Q
        n, k = q.shape[-2:]
        with no_grad():
            if not self.use_trivialization:
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations when"
                        " use_trivialization=False."
                    )
                a, tau = factorizations.geqrf(q)
                diagonal = a.diagonal(dim1=-2, dim2=-1)
                diagonal.copy_(functions.where(tau == 0.0, -diagonal.sign(), diagonal.sign()))
                return a.transpose(-1, -2) if wide else a  # type: ignore[no-any-return]
            if n == k:
                base = q.clone() if self._is_orthogonal(q) else _made_orthogonal(q)
            else:
                more = randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
                base = _made_orthogonal(functions.cat([q, more], -1))
            self.base = base
            start: Tensor = zeros(self.shape, dtype=Q.dtype, device=Q.device)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start

    @staticmethod
    def _is_orthogonal(q: Tensor) -> bool:
        n, k = q.shape[-2:]
        eps = 10.0 * n * float(np.finfo(q.dtype).eps)
        return bool(functions.allclose(q.transpose(-1, -2).conj() @ q, _identity_like(q, k), atol=eps))


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix (or a batch of them) orthogonal: ``Q.T @ Q`` or, if it is wide, ``Q @ Q.T`` is the identity.

    Args:
        module: what has the matrix.
        name: its name.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; the first for square and complex matrices,
            the last for others by default.
        use_trivialization: whether the map is taken around a fixed orthogonal matrix.

    Returns:
        The module.

    Raises:
        ValueError: if there is no such matrix or map.
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.dtype.kind == "c" else "householder"
    maps = ("matrix_exp", "cayley", "householder")
    if orthogonal_map not in maps:
        raise ValueError(f"orthogonal_map has to be one of {maps}. Got: {orthogonal_map}")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
