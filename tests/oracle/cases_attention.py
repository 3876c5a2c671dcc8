"""Attention, embeddings and rotary embedding where PyTorch has no samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .op_cases import FLOATS, Case, signed

Call = Callable[..., Any]


def _attention(**keywords: Any) -> Call:
    return lambda lib, *tensors: lib.nn.functional.scaled_dot_product_attention(*tensors, **keywords)


def _rotary(interleaved: bool) -> Call:
    def call(lib: Any, x: Any, cos: Any, sin: Any) -> Any:
        if hasattr(lib.nn.functional, "rotary_embedding"):
            return lib.nn.functional.rotary_embedding(x, cos, sin, interleaved=interleaved)
        pairs = cos.shape[-1]
        places = (
            [slice(start, 2 * pairs, 2) for start in (0, 1)] if interleaved else [slice(pairs), slice(pairs, 2 * pairs)]
        )
        a, b = (x[..., place] for place in places)
        turned = [a * cos - b * sin, b * cos + a * sin]
        joined = lib.stack(turned, -1).flatten(-2) if interleaved else lib.cat(turned, -1)
        return lib.cat([joined, x[..., 2 * pairs :]], -1)

    return call


_VISIBLE = np.array([[True, False, True, True], [False, False, False, False], [True, True, True, False]])
_QUERY, _SHARED = (2, 4, 3, 5), ((2, 2, 4, 5), (2, 2, 4, 6))
_ALIKE = ((2, 4, 4, 5), (2, 4, 4, 6))


def _attentions() -> list[Case]:
    name = "scaled_dot_product_attention"
    shared = [signed(*_QUERY), *(signed(*shape) for shape in _SHARED)]
    alike = [signed(*_QUERY), *(signed(*shape) for shape in _ALIKE)]
    cases = [
        Case(name, "shared heads", _attention(enable_gqa=True), tuple(shared), FLOATS),
        Case(name, "shared heads, causal", _attention(enable_gqa=True, is_causal=True), tuple(shared), FLOATS),
        Case(name, "heads that do not fit", _attention(), tuple(shared), FLOATS),
        Case(name, "scale", _attention(scale=0.7), tuple(alike), FLOATS),
        Case(name, "rows that see nothing", _attention(), (*alike, _VISIBLE), FLOATS),
        Case(name, "two dimensions", _attention(is_causal=True), (signed(3, 5), signed(4, 5), signed(4, 2)), FLOATS),
        Case(name, "one dimension", _attention(), (signed(5), signed(5), signed(5)), FLOATS),
        Case(name, "sizes that do not fit", _attention(), (signed(3, 5), signed(4, 6), signed(4, 5)), FLOATS),
        Case(name, "no keys", _attention(), (signed(2, 3, 5), signed(2, 0, 5), signed(2, 0, 4)), FLOATS),
        Case(name, "no queries", _attention(), (signed(2, 0, 5), signed(2, 3, 5), signed(2, 3, 4)), FLOATS),
    ]
    shapes = [(1, 4), (3, 1), (1, 4, 3, 4), (2, 1, 1, 4), (4, 1, 4), (2, 4, 3, 4)]
    cases += [Case(name, f"mask {shape}", _attention(), (*alike, signed(*shape)), FLOATS) for shape in shapes]
    five = (signed(2, 3, 2, 3, 5), signed(2, 3, 2, 4, 5), signed(2, 3, 2, 4, 2))
    shapes = [(3, 4), (3, 1, 3, 4), (2, 1, 2, 1, 4)]
    wide = [
        Case(name, f"five dimensions, mask {shape}", _attention(), (*five, signed(*shape)), FLOATS) for shape in shapes
    ]
    return cases + wide


def _multi_head(**keywords: Any) -> Call:
    """Attention of two heads and size 4, without dropout."""

    def call(lib: Any, query: Any, weight: Any, bias: Any, out: Any, *masks: Any) -> Any:
        given = dict(zip(("attn_mask", "key_padding_mask"), masks, strict=False))
        function = lib.nn.functional.multi_head_attention_forward
        head = (query, query, query, 4, 2, weight, bias, None, None, keywords.get("zeros", False), 0.0, out, None)
        options = {key: value for key, value in keywords.items() if key != "zeros"}
        result, weights = function(*head, **options, **given)
        return result if weights is None else (result, weights)

    return call


def _multi_heads() -> list[Case]:
    projections = (signed(12, 4), signed(12), signed(4, 4))
    masks: dict[str, tuple[Any, ...]] = {
        "no mask": (),
        "bool": (np.triu(np.ones((3, 3), bool), 1),),
        "added": (signed(6, 3, 3),),
        "padding": (
            np.triu(np.ones((3, 3), bool), 1),
            np.array([[False, True, False], [False, False, True]] + [[False] * 3]),
        ),
    }
    cases = []
    for (label, given), weights, zeros in itertools.product(masks.items(), (True, False), (True, False)):
        batch = 2 if label == "added" else 3
        inputs = (signed(3, batch, 4), *projections, *given)
        text = f"{label}{', weights' if weights else ''}{', zeros' if zeros else ''}"
        call = _multi_head(need_weights=weights, zeros=zeros)
        cases.append(Case("multi_head_attention_forward", text, call, inputs, FLOATS))
    return cases


_INDICES = np.array([[1, 0, 3], [3, 1, 3]])


def _embeddings() -> list[Case]:
    def by_frequency(lib: Any, weight: Any) -> Any:
        indices = lib.tensor(_INDICES)
        return lib.nn.functional.embedding(indices, weight, padding_idx=1, scale_grad_by_freq=True)

    def within(norm_type: float) -> Call:
        def call(lib: Any, weight: Any) -> Any:
            table = weight.detach().clone()
            found = lib.nn.functional.embedding(lib.tensor(_INDICES), table, max_norm=0.7, norm_type=norm_type)
            return found, table

        return call

    def bag(mode: str, **keywords: Any) -> Call:
        def call(lib: Any, weight: Any) -> Any:
            indices, offsets = lib.tensor(_INDICES.reshape(-1)), lib.tensor([0, 2, 2])
            return lib.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, **keywords)

        return call

    cases = [Case("embedding", "by frequency", by_frequency, (signed(4, 3),), FLOATS)]
    cases += [Case("embedding", f"norm {p}", within(p), (signed(4, 3),), FLOATS) for p in (1.0, 2.0, 3.0)]
    for mode in ("sum", "mean", "max"):
        cases.append(Case("embedding_bag", mode, bag(mode), (signed(4, 3),), FLOATS))
        cases.append(Case("embedding_bag", f"{mode}, padding", bag(mode, padding_idx=-1), (signed(4, 3),), FLOATS))
    return cases


def _rotaries() -> list[Case]:
    shapes = [((2, 3, 4, 6), (4, 3)), ((2, 3, 4, 7), (2, 1, 4, 2)), ((5, 2), (5, 1)), ((0, 4), (0, 2))]
    return [
        Case(
            "rotary_embedding",
            f"{x} by {angles}{', neighbours' if interleaved else ''}",
            _rotary(interleaved),
            (signed(*x), signed(*angles), signed(*angles)),
            FLOATS,
        )
        for interleaved in (False, True)
        for x, angles in shapes
    ]


CASES = [*_attentions(), *_multi_heads(), *_embeddings(), *_rotaries()]
