"""Lookup tables."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .making import new_parameter
from .module import Module


class _Table(Module):
    """A table of vectors, looked up by index."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Parameter

    def _set(
        self,
        rows: int,
        columns: int,
        padding_idx: int | None,
        norm: tuple[float | None, float],
        scale_grad_by_freq: bool,
        given: Tensor | None,
        freeze: bool,
        device: DeviceLike | None,
        dtype: Any,
    ) -> None:
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                raise ValueError(f"padding_idx must be within num_embeddings = {rows}, got {padding_idx}")
            padding_idx %= rows
        self.num_embeddings = rows
        self.embedding_dim = columns
        self.padding_idx = padding_idx
        self.max_norm, self.norm_type = norm
        self.scale_grad_by_freq = scale_grad_by_freq
        if given is None:
            self.weight = new_parameter((rows, columns), device, dtype).requires_grad_(not freeze)
            self.reset_parameters()
        else:
            if tuple(given.shape) != (rows, columns):
                raise ValueError(f"expected a weight of the shape {[rows, columns]}, got {list(given.shape)}")
            self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def _norm_repr(self) -> list[str]:
        said = [] if self.max_norm is None else [f"max_norm={self.max_norm}"]
        if self.norm_type != 2:
            said.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            said.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        return said


def _check_dense(sparse: bool) -> None:
    if sparse:
        raise NotImplementedError("sparse=True: there are no sparse gradients, a table's gradient has its shape")


def _check_matrix(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise ValueError(f"embeddings is expected to be 2-dimensional, got shape {list(embeddings.shape)}")
    return embeddings.shape[0], embeddings.shape[1]


class Embedding(_Table):
    """A table of vectors, looked up by index.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each vector.
        padding_idx: a row that starts as zeros and gets no gradient; may count from the end.
        max_norm: rows that are looked up and have a larger norm are scaled down to it first, in place.
        norm_type: which norm.
        scale_grad_by_freq: whether the gradient of a row is divided by how often the input names it.
        sparse: has to be False, there are no sparse gradients.
        _weight: the table's values, whose memory it shares.
        _freeze: whether it is kept out of training.
        device, dtype: of the table.

    Raises:
        ValueError: if ``padding_idx`` is no row of the table.

    Shapes: input ``(*)`` of integers, output ``(*, embedding_dim)``. The table begins with standard normal values.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_dense(sparse)
        norm = max_norm, norm_type
        self._set(num_embeddings, embedding_dim, padding_idx, norm, scale_grad_by_freq, _weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table over the memory of ``embeddings``.

        Args:
            embeddings: a matrix, one vector a row.
            freeze: whether it is kept out of training.
            padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: as for the class; the row's values stay.

        Raises:
            ValueError: if ``embeddings`` is no matrix.
        """
        sizes = _check_matrix(embeddings)
        settings = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return cls(sizes[0], sizes[1], *settings, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        settings = self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        return F.embedding(input, self.weight, *settings)

    def extra_repr(self) -> str:
        said = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            said.append(f"padding_idx={self.padding_idx}")
        return ", ".join([*said, *self._norm_repr()])


class EmbeddingBag(_Table):
    """The sum, mean or maximum of a table's rows over each bag; the rows themselves never exist at once.

    Args:
        num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq: as of `Embedding`.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: has to be False, there are no sparse gradients.
        _weight: the table's values, whose memory it shares.
        include_last_offset: whether the last of the offsets is where the last bag ends.
        padding_idx: a row that does not count; may count from the end.
        device, dtype: of the table.

    Raises:
        ValueError: if ``padding_idx`` is no row of the table.

    Shapes: see `functional.embedding_bag`.
    """

    mode: str
    include_last_offset: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_dense(sparse)
        norm = max_norm, norm_type
        self._set(num_embeddings, embedding_dim, padding_idx, norm, scale_grad_by_freq, _weight, False, device, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A table over the memory of ``embeddings``.

        Args:
            embeddings: a matrix, one vector a row.
            freeze: whether it is kept out of training.
            max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx: as for the class.

        Raises:
            ValueError: if ``embeddings`` is no matrix.
        """
        bag = cls(
            *_check_matrix(embeddings),
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        said = [f"{self.num_embeddings}, {self.embedding_dim}", *self._norm_repr(), f"mode={self.mode!r}"]
        if self.padding_idx is not None:
            said.append(f"padding_idx={self.padding_idx}")
        return ", ".join(said)
