"""Policies that make what is saved smaller where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .codecs import BFloat16, Constant, Float16, NarrowIntegers, NonZeros, PackBits, Quantizer, Zstd
from .payload import Stage
from .policy import Policy

# In the order of packing: what a codec leaves alone is the next one's.
_EXACT: dict[str, Callable[[int], Stage]] = {
    "packbits": lambda level: PackBits(),
    "constant": lambda level: Constant(),
    "narrow": lambda level: NarrowIntegers(),
    "nonzeros": lambda level: NonZeros(),
    "zstd": Zstd,
}


class Compress(Policy):
    """Compress what is saved for backward, without loss.

    Args:
        codec: one of ``"packbits"`` (a bit for a bool), ``"constant"`` (one element where all are the same),
            ``"narrow"`` (integers in the narrowest type), ``"nonzeros"`` (a bit mask and what is not zero) and
            ``"zstd"``; or ``"auto"``: all of them in this order, each only where it pays.
        level: zstandard's level, 1 by default; for ``"zstd"`` and ``"auto"``.
        min_bytes: smaller values are left alone.
        parameters: also compress what lies in parameters and buffers.

    Raises:
        ValueError: for a codec that doesn't exist, or a level for one that has none.

    >>> Compress("zstd").describe()
    'zstd, level 1 where at least 64.0 KiB'
    """

    def __init__(
        self,
        codec: str = "auto",
        *,
        level: int | None = None,
        min_bytes: int | str = "64 KiB",
        parameters: bool = False,
    ) -> None:
        if codec != "auto" and codec not in _EXACT:
            known = ", ".join(repr(name) for name in _EXACT)
            raise ValueError(f"Compress: unknown codec {codec!r}; expected 'auto' or one of {known}")
        if level is not None and codec not in ("auto", "zstd"):
            raise ValueError(f"Compress: level is zstandard's, and {codec!r} has none; leave `level` out")
        names = list(_EXACT) if codec == "auto" else [codec]
        stages = [_EXACT[name](1 if level is None else level) for name in names]
        super().__init__(*stages, min_bytes=min_bytes, parameters=parameters)


class Cast(Policy):
    """Keep what is saved for backward with fewer bits: lossy, and only for float32 and float64.

    Args:
        dtype: ``"bfloat16"`` or ``"float16"``; `describe` states its error.
        scaled: for float16, scale each array so that its largest number fits.
        min_bytes: smaller values are left alone.
        parameters: also round the copies of what lies in parameters and buffers.

    Raises:
        ValueError: for a dtype that isn't offered, or ``scaled`` with bfloat16.

    >>> Cast("bfloat16").describe()
    'bfloat16 (lossy: relative error at most 2**-8) where at least 4.0 KiB'
    """

    def __init__(
        self,
        dtype: str = "bfloat16",
        *,
        scaled: bool | None = None,
        min_bytes: int | str = "4 KiB",
        parameters: bool = False,
    ) -> None:
        if str(dtype) not in ("bfloat16", "float16"):
            raise ValueError(f"Cast: unknown dtype {dtype!r}; expected 'bfloat16' or 'float16'")
        if str(dtype) == "bfloat16" and scaled:
            raise ValueError("Cast: bfloat16 has the range of float32 and is not scaled; leave `scaled` out")
        stage = BFloat16() if str(dtype) == "bfloat16" else Float16(scaled is not False)
        super().__init__(stage, min_bytes=min_bytes, parameters=parameters)


class Quantize(Policy):
    """Keep what is saved for backward with 8 or 4 bits an element: lossy, and only for float32 and float64.

    Args:
        bits: 8 or 4.
        group: how many neighbours share a grid of ``2**bits`` steps.
        seed: of the private generator that the rounding draws from.
        min_bytes: smaller values are left alone.
        parameters: also quantize the copies of what lies in parameters and buffers.

    Raises:
        ValueError: for other bits, or a group that is odd or not positive.

    >>> Quantize(bits=8).describe()
    '8-bit groups of 256 (lossy: error below (max - min) / 255 of the group, mean 0) where at least 4.0 KiB'
    """

    def __init__(
        self,
        bits: int = 8,
        group: int = 256,
        *,
        seed: int = 0,
        min_bytes: int | str = "4 KiB",
        parameters: bool = False,
    ) -> None:
        quantizer = Quantizer(bits, group, seed)
        super().__init__(quantizer, min_bytes=min_bytes, parameters=parameters)
        self._quantizer = quantizer

    def state_dict(self) -> dict[str, Any]:
        """Where its random numbers are, between two steps: one of the ``parts`` of a training state."""
        return self._quantizer.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called: what is rounded from then on is rounded alike."""
        self._quantizer.load_state_dict(state_dict)
