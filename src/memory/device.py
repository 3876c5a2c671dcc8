"""Devices: where a tensor's bytes are."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

KINDS = ("cpu", "cuda", "meta", "sim")
_INDEXED = ("cuda", "sim")
_PATTERN = re.compile(r"(?P<kind>[a-z]+)(?::(?P<index>\d+))?")
_interned: dict[tuple[str, int | None], Device] = {}


class Device:
    """A place that holds tensors, like ``torch.device``.

    Args:
        kind: ``"cpu"``, ``"meta"`` (shapes without data), ``"sim"`` (a stand-in accelerator in host memory) or
            ``"cuda"``; an index may follow after a colon.
        index: which of several; ``sim`` and ``cuda`` count from 0, the others have none.

    Raises:
        RuntimeError: for a kind or an index that does not exist.

    Devices are interned: equal ones are the same object.

    >>> Device("sim:1")
    device(type='sim', index=1)
    >>> Device("cpu") is Device("cpu")
    True
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, kind: str, index: int | None = None) -> Device:
        match = _PATTERN.fullmatch(kind)
        if match is None or match["kind"] not in KINDS:
            raise RuntimeError(
                f"Expected one of {', '.join(KINDS)} (with an index, as in 'sim:0'), got device {kind!r}"
            )
        if match["index"] is not None:
            if index is not None:
                raise RuntimeError(f"device {kind!r} names its index already; got index={index} as well")
            index = int(match["index"])
        kind = match["kind"]
        if kind in _INDEXED:
            index = 0 if index is None else index
        elif index not in (None, 0):
            raise RuntimeError(f"there is only one {kind} device; got index {index}")
        else:
            index = None
        key = (kind, index)
        found = _interned.get(key)
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "type", kind)
            object.__setattr__(found, "index", index)
            found = _interned.setdefault(key, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a device is immutable; cannot set {name!r}")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> Any:
        return Device, (self.type, self.index)


DeviceLike: TypeAlias = Device | str

CPU = Device("cpu")
META = Device("meta")


def as_device(device: DeviceLike | None) -> Device:
    """The `Device` that ``device`` names; ``None`` means the CPU.

    >>> str(as_device("cuda"))
    'cuda:0'
    """
    if device is None:
        return CPU
    if isinstance(device, Device):
        return device
    if isinstance(device, str):
        return Device(device)
    raise TypeError(f"expected a device or its name, got {type(device).__name__}")
