"""`Offload`: a policy by the name of the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..saved_tensors import Policy
from .disk import save_on_disk
from .host import save_on_cpu

_PLACES: dict[str, Callable[..., Policy]] = {"cpu": save_on_cpu, "disk": save_on_disk}


def Offload(place: str, **options: Any) -> Policy:
    """`save_on_cpu` for ``"cpu"``, `save_on_disk` for ``"disk"``, with their options.

    Raises:
        ValueError: for a place that doesn't exist.

    >>> from stowgrad.saved_tensors import Compress
    >>> policy = Compress("zstd") | Offload("disk", limit="1 GiB")
    """
    found = _PLACES.get(place)
    if found is None:
        raise ValueError(f"Offload: unknown place {place!r}; expected 'cpu' or 'disk'")
    return found(**options)
