"""Linear algebra: what the samples of PyTorch's operators lack, integers and bools, shapes that don't fit."""

from __future__ import annotations

import numpy as np

from .op_cases import FLOATS, Array, Case, signed


def regular(*sizes: int) -> Array:
    return signed(*sizes) + 4 * np.eye(*sizes[-2:])


def positive(*sizes: int) -> Array:
    x = regular(*sizes)
    return x @ np.swapaxes(x, -1, -2)


_SQUARE = {
    "linalg.inv": lambda lib, x: lib.linalg.inv(x),
    "linalg.det": lambda lib, x: lib.linalg.det(x),
    "linalg.svdvals": lambda lib, x: lib.linalg.svdvals(x),
    "linalg.eigvalsh": lambda lib, x: lib.linalg.eigvalsh(x + x.mT),
    "linalg.matrix_exp": lambda lib, x: lib.linalg.matrix_exp(x * 0.25),
    "linalg.pinv": lambda lib, x: lib.linalg.pinv(x),
    "linalg.matrix_rank": lambda lib, x: lib.linalg.matrix_rank(x),
    "linalg.matrix_power": lambda lib, x: lib.linalg.matrix_power(x, 3),
    "linalg.cond": lambda lib, x: lib.linalg.cond(x),
    "logdet": lambda lib, x: lib.logdet(x),
    "slogdet": lambda lib, x: lib.slogdet(x),
    "slogdet method": lambda lib, x: x.slogdet(),
    "inverse": lambda lib, x: x.inverse(),
    "matrix_exp": lambda lib, x: lib.matrix_exp(x * 0.25),
    "norm": lambda lib, x: lib.norm(x),
}
# LAPACK rounds float32 in another order.
_FLOAT64 = ("float64", "int64", "bool")
_VECTORS = (signed(4), signed(4)[::-1].copy())

CASES = [
    *(Case(name, "square", call, (regular(4, 4),), _FLOAT64) for name, call in _SQUARE.items()),
    *(Case(name, "not square", call, (regular(4, 3),), ("float64",)) for name, call in _SQUARE.items()),
    *(Case(name, "vector", call, (signed(4),), ("float64",)) for name, call in _SQUARE.items()),
    Case("linalg.solve", "matrix", lambda lib, a, b: lib.linalg.solve(a, b), (regular(3, 3), signed(3, 2)), _FLOAT64),
    Case("linalg.solve", "right", lambda lib, a, b: lib.linalg.solve(a, b, left=False), (regular(3, 3), signed(2, 3))),
    Case("linalg.solve", "misfit", lambda lib, a, b: lib.linalg.solve(a, b), (regular(3, 3), signed(2, 3)), FLOATS),
    Case("linalg.cholesky", "", lambda lib, x: lib.linalg.cholesky(x), (positive(3, 3) + 9 * np.eye(3),), _FLOAT64),
    Case("linalg.qr", "wrong mode", lambda lib, x: lib.linalg.qr(x, "full"), (regular(3, 3),)),
    Case("linalg.qr", "R", lambda lib, x: lib.linalg.qr(x.detach(), "r").R.abs(), (regular(3, 2),), _FLOAT64),
    Case("linalg.eigh", "wrong half", lambda lib, x: lib.linalg.eigh(x, "X"), (regular(3, 3),)),
    Case("linalg.matrix_norm", "wrong", lambda lib, x: lib.linalg.matrix_norm(x, 3), (regular(3, 3),)),
    Case("linalg.matrix_norm", "one dim", lambda lib, x: lib.linalg.matrix_norm(x, dim=(0,)), (regular(3, 3),)),
    Case("linalg.norm", "three dims", lambda lib, x: lib.linalg.norm(x, 2), (signed(2, 3, 4),)),
    Case("linalg.vector_norm", "empty", lambda lib, x: lib.linalg.vector_norm(x, float("inf")), (signed(0, 3),)),
    Case("linalg.vector_norm", "wide", lambda lib, x: lib.linalg.vector_norm(x, 3), (signed(60, 35),), FLOATS),
    Case(
        "linalg.vector_norm",
        "dtype",
        lambda lib, x: lib.linalg.vector_norm(x, dim=0, dtype=lib.float64),
        (signed(6, 3),),
        FLOATS,
    ),
    Case("norm", "0", lambda lib, x: lib.norm(x, 0), (signed(3, 4),), FLOATS),
    Case("norm", "dims", lambda lib, x: x.norm(2, (0, 2), True), (signed(2, 3, 4),), FLOATS),
    Case("mm", "", lambda lib, x, y: lib.mm(x, y), (signed(3, 4), signed(4, 2))),
    Case("mm", "misfit", lambda lib, x, y: lib.mm(x, y), (signed(3, 4), signed(3, 2))),
    Case("mm", "vector", lambda lib, x, y: x.mm(y), (signed(3, 4), signed(4))),
    Case("bmm", "", lambda lib, x, y: lib.bmm(x, y), (signed(2, 3, 4), signed(2, 4, 2))),
    Case("bmm", "batches", lambda lib, x, y: lib.bmm(x, y), (signed(1, 3, 4), signed(2, 4, 2))),
    Case("mv", "", lambda lib, x, y: lib.mv(x, y), (signed(3, 4), signed(4))),
    Case("dot", "", lambda lib, x, y: lib.dot(x, y), _VECTORS),
    Case("dot", "matrix", lambda lib, x, y: lib.dot(x, y), (signed(2, 2), signed(4))),
    Case("vdot", "", lambda lib, x, y: lib.vdot(x, y), _VECTORS),
    Case("ger", "", lambda lib, x, y: lib.ger(x, y), _VECTORS),
    Case("outer", "", lambda lib, x, y: x.outer(y), _VECTORS),
    Case("kron", "", lambda lib, x, y: lib.kron(x, y), _VECTORS),
    Case("inner", "misfit", lambda lib, x, y: lib.inner(x, y), (signed(2, 3), signed(2))),
    Case("cross", "no 3", lambda lib, x, y: lib.linalg.cross(x, y), (signed(2, 4), signed(2, 4))),
    Case("tensordot", "misfit", lambda lib, x, y: lib.tensordot(x, y, 1), (signed(2, 3), signed(2, 3))),
    Case("tensordot", "1", lambda lib, x, y: lib.tensordot(x, y, dims=([0], [1])), (signed(3, 2), signed(2, 3))),
    Case("einsum", "letters", lambda lib, x: lib.einsum("ij->ik", x), (signed(2, 3),)),
    Case("einsum", "twice", lambda lib, x: lib.einsum("ij->ii", x), (signed(2, 3),)),
    Case("einsum", "dims", lambda lib, x: lib.einsum("ijk", x), (signed(2, 3),)),
    Case("einsum", "sizes", lambda lib, x, y: lib.einsum("ij,jk", x, y), (signed(2, 3), signed(2, 3))),
    Case("einsum", "turned", lambda lib, x: lib.einsum("ba", x), (signed(2, 3),)),
    Case(
        "einsum", "dots", lambda lib, x, y: lib.einsum("...i,...i->...", x, y), (signed(2, 1, 3), signed(4, 3)), FLOATS
    ),
    Case("einsum", "free dots", lambda lib, x: lib.einsum("i...->...", x), (signed(2, 3, 4),), FLOATS),
    Case("einsum", "diagonals", lambda lib, x: lib.einsum("iijj->ji", x), (signed(3, 3, 2, 2),), FLOATS),
    Case(
        "einsum",
        "chain",
        lambda lib, x, y, z: lib.einsum("ij,jk,kl->il", x, y, z),
        (signed(2, 8), signed(8, 3), signed(3, 5)),
        FLOATS,
    ),
    Case(
        "einsum",
        "apart",
        lambda lib, x, y, z: lib.einsum("a,b,c->cab", x, y, z),
        (signed(2), signed(3), signed(4)),
        FLOATS,
    ),
    Case(
        "einsum",
        "lists",
        lambda lib, x, y: lib.einsum(x, [..., 0, 1], y, [1, 2], [2, ..., 0]),
        (signed(4, 2, 3), signed(3, 5)),
        FLOATS,
    ),
    Case(
        "chain_matmul",
        "",
        lambda lib, x, y, z: lib.chain_matmul(x, y, z),
        (signed(2, 8), signed(8, 3), signed(3, 5)),
        FLOATS,
    ),
    Case(
        "addmm",
        "",
        lambda lib, x, y, z: lib.addmm(x, y, z, beta=2, alpha=3),
        (signed(3), signed(2, 4), signed(4, 3)),
        ("float64", "float32", "int64"),
    ),
    Case(
        "addmm",
        "no input",
        lambda lib, x, y, z: lib.addmm(x / 0, y, z, beta=0),
        (signed(3), signed(2, 4), signed(4, 3)),
        FLOATS,
    ),
    Case("addmm", "misfit", lambda lib, x, y: lib.addmm(x, y, y), (signed(3), signed(2, 4))),
    Case("addmv", "", lambda lib, x, y, z: x.addmv(y, z), (signed(3), signed(3, 4), signed(4)), FLOATS),
    Case("addr", "", lambda lib, x, y, z: x.addr(y, z), (signed(3, 4), signed(3), signed(4)), FLOATS),
]
