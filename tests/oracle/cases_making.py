"""Conversions, makers of tensors like a tensor, and draws that have nothing random about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .op_cases import FLOATS, Case, signed, smooth

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "half": lambda lib, x: x.half().float(),
    "cfloat": lambda lib, x: x.cfloat().real,
    "cdouble": lambda lib, x: x.cdouble().real,
    "byte": lambda lib, x: x.byte(),
    "char": lambda lib, x: x.char(),
    "short": lambda lib, x: x.short(),
    "int": lambda lib, x: x.int(),
    "to": lambda lib, x: x.to(lib.float64),
    "to copy": lambda lib, x: x.to("cpu", lib.float32, copy=True),
    "type": lambda lib, x: x.type(lib.float64),
    "type named": lambda lib, x: x.type("torch.DoubleTensor"),
    "type_as": lambda lib, x: x.type_as(lib.ones(1, dtype=lib.float64)),
    "cpu": lambda lib, x: x.cpu(),
    "__complex__": lambda lib, x: lib.tensor(complex(x.detach().reshape(-1)[0])),
    "new_empty": lambda lib, x: x.new_empty((0, 3)),
    "new_zeros": lambda lib, x: x.new_zeros(2, 3) + x.sum(),
    "new_ones": lambda lib, x: x.new_ones((2, 1)) * x.sum(),
    "new_full": lambda lib, x: x.new_full((2,), 3) * x.sum(),
    "new_tensor": lambda lib, x: x.new_tensor([1, 0]) * x.sum(),
}
QUESTIONS = ("get_device", "is_conj", "is_neg", "is_signed", "is_pinned", "ndimension")
STATES = ("itemsize", "is_cpu", "is_meta", "is_sparse", "is_quantized")
for _name in QUESTIONS:
    CALLS[_name] = lambda lib, x, name=_name: lib.tensor([int(getattr(x, name)())])
for _name in STATES:
    CALLS[_name] = lambda lib, x, name=_name: lib.tensor([int(getattr(x, name))])
CALLS |= {
    "is_nonzero": lambda lib, x: lib.tensor([x[:1, :1].is_nonzero(), lib.is_nonzero(x.sum() * 0)]),
    "is_nonzero many": lambda lib, x: lib.is_nonzero(x),
    "is_same_size": lambda lib, x: lib.tensor([x.is_same_size(x[:1]), lib.is_same_size(x, x + x)]),
    "layout": lambda lib, x: lib.tensor([x.layout == lib.strided]),
    "data_ptr": lambda lib, x: lib.tensor([x.detach().data_ptr() == x.data_ptr()]),
    "pin_memory": lambda lib, x: x.detach().clone(),
    "__contains__": lambda lib, x: lib.tensor([x[0, 0] in x, 99 in x]),
    "__reversed__": lambda lib, x: reversed(x),
}
ONLY_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "poisson": lambda lib, x: lib.poisson(x * 0),
    "binomial": lambda lib, x: lib.binomial(x.detach() * 0 + 3, x.detach() * 0 + 1),
    "cuda": lambda lib, x: x.cuda("no device"),
}

CASES = [Case(name.split()[0], name, call, (smooth(3, 4),)) for name, call in CALLS.items()]
CASES += [Case(name, name, call, (signed(3, 4),), FLOATS) for name, call in ONLY_FLOATS.items()]
