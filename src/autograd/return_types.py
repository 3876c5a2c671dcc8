"""What functions with several results return: tuples with PyTorch's names for the fields, `torch.return_types`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _named(name: str, *fields: str) -> Any:
    """A named tuple that prints each field on a line of its own."""
    base = namedtuple(name, fields)  # type: ignore[misc]  # mypy wants to know the name

    def text(self: Any) -> str:
        lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"stowgrad.return_types.{name}(\n{lines})"

    return type(name, (base,), {"__slots__": (), "__repr__": text, "__module__": __name__})


aminmax = _named("aminmax", "min", "max")
cummax = _named("cummax", "values", "indices")
cummin = _named("cummin", "values", "indices")
histogram = _named("histogram", "hist", "bin_edges")
kthvalue = _named("kthvalue", "values", "indices")
max = _named("max", "values", "indices")
median = _named("median", "values", "indices")
min = _named("min", "values", "indices")
mode = _named("mode", "values", "indices")
nanmedian = _named("nanmedian", "values", "indices")
sort = _named("sort", "values", "indices")
topk = _named("topk", "values", "indices")
