"""Policies that make what is saved smaller where it is."""

from __future__ import annotations

from .codecs import BFloat16, PackBits, Zstd
from .payload import Stage
from .policy import Policy


class Compress(Policy):
    """Compress what is saved for backward, without loss.

    Args:
        codec: ``"auto"`` (packed bits for bool, then zstandard where a sample says that it pays), ``"zstd"`` or
            ``"packbits"``.
        level: zstandard's level.
        min_bytes: smaller values are left alone.
        parameters: also compress what lies in parameters and buffers.

    Raises:
        ValueError: for a codec that doesn't exist.

    >>> Compress().describe()
    'packbits where at least 64.0 KiB | zstd, level 1 where at least 64.0 KiB'
    """

    def __init__(
        self, codec: str = "auto", *, level: int = 1, min_bytes: int | str = "64 KiB", parameters: bool = False
    ) -> None:
        if codec not in ("auto", "packbits", "zstd"):
            raise ValueError(f"Compress: unknown codec {codec!r}; expected 'auto', 'zstd' or 'packbits'")
        stages: list[Stage] = []
        if codec != "zstd":
            stages.append(PackBits())
        if codec != "packbits":
            stages.append(Zstd(level))
        super().__init__(*stages, min_bytes=min_bytes, parameters=parameters)


class Cast(Policy):
    """Keep what is saved for backward with fewer bits: lossy, and only for float32 and float64.

    Args:
        dtype: ``"bfloat16"``; `describe` states its error.
        min_bytes: smaller values are left alone.
        parameters: also round the copies of what lies in parameters and buffers.

    Raises:
        ValueError: for a dtype that isn't offered.

    >>> Cast("bfloat16").describe()
    'bfloat16 (lossy: relative error at most 2**-8) where at least 4.0 KiB'
    """

    def __init__(self, dtype: str = "bfloat16", *, min_bytes: int | str = "4 KiB", parameters: bool = False) -> None:
        if str(dtype) != "bfloat16":
            raise ValueError(f"Cast: unknown dtype {dtype!r}; expected 'bfloat16'")
        super().__init__(BFloat16(), min_bytes=min_bytes, parameters=parameters)
