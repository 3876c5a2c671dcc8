"""Lookup tables."""

from __future__ import annotations

from typing import Any

from ...autograd.creation import empty
from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class Embedding(Module):
    """A table of vectors, looked up by index.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each vector.
        padding_idx: a row that starts as zeros and gets no gradient; may count from the end.
        device, dtype: of the table.

    Raises:
        ValueError: if ``padding_idx`` is no row of the table.

    Shapes: input ``(*)`` of integers, output ``(*, embedding_dim)``. The table begins with standard normal values.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_sizes(num_embeddings, embedding_dim, padding_idx)
        self.weight = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
        self.reset_parameters()

    def _set_sizes(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"padding_idx must be within num_embeddings = {num_embeddings}, got {padding_idx}")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """A table over the memory of ``embeddings``.

        Args:
            embeddings: a matrix, one vector a row.
            freeze: whether it is kept out of training.
            padding_idx: as for the class; the row's values stay.

        Raises:
            ValueError: if ``embeddings`` is no matrix.
        """
        if embeddings.dim() != 2:
            raise ValueError(f"embeddings is expected to be 2-dimensional, got shape {list(embeddings.shape)}")
        table = cls.__new__(cls)
        Module.__init__(table)
        rows, columns = embeddings.shape
        table._set_sizes(rows, columns, padding_idx)
        table.weight = Parameter(embeddings, requires_grad=not freeze)
        return table

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
