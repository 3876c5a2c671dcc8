"""`Block`: a live storage, as a recording knows it."""

from __future__ import annotations

from typing import Any

from ..memory import Device
from .sites import RawSite


class Block:
    """A live storage: what it is, and where it was allocated."""

    __slots__ = (
        "born_as",
        "category",
        "device",
        "dtype",
        "id",
        "module",
        "name",
        "nbytes",
        "op",
        "owner",
        "phase",
        "released_ns",
        "saved_by",
        "savers",
        "shape",
        "site",
        "stack",
        "step",
        "t_ns",
        "unshared",
        "until",
    )

    def __init__(self, storage: Any, op: str, module: str, site: RawSite | None, t_ns: int) -> None:
        owner = storage()
        self.id: int = storage.id
        self.nbytes: int = storage.nbytes
        self.category: str = storage.category
        self.born_as = self.category
        self.device: Device = storage.pool.device
        self.shape = getattr(owner, "shape", None)
        self.dtype = getattr(owner, "dtype", None)
        self.op = op
        self.module = module
        self.site = site
        self.stack: tuple[RawSite, ...] = ()
        self.t_ns = t_ns
        self.step = 0
        self.phase = "setup"
        self.name = self.owner = ""  # what its user calls it, and the class of the model that has it
        self.saved_by: tuple[str, str] | None = None
        self.released_ns = self.savers = 0
        self.until = ""  # the op or node in which it was freed
        self.unshared: tuple[int, int] | None = None

    def share(self, step: int, nbytes: int) -> int:
        """How much of a kept value of ``nbytes`` no other save of that step has counted yet."""
        left = self.nbytes if self.unshared is None or self.unshared[0] != step else self.unshared[1]
        taken = min(nbytes, left)
        self.unshared = (step, left - taken)
        return taken

    def is_saved_at(self, t_ns: int) -> bool:
        """Whether some node kept it for backward at that time, or was about to."""
        return self.saved_by is not None and (self.savers > 0 or self.released_ns > t_ns)
