"""`save_on_disk`: keep what is saved for backward in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..memory import parse_size
from ..saved_tensors import Payload, Policy, Site, Stage
from ..saved_tensors.layout import Array
from ..saved_tensors.payload import host_outs, to_host
from .arena import Arena


class DiskStage(Stage):
    """Writes buffers to an arena (NOTE [ Arenas ]), one for each process that packs."""

    name = "disk"

    def __init__(self, directory: str | os.PathLike[str] | None, limit: int | None, checksum: bool) -> None:
        self._arena = Arena(directory, limit, checksum)

    def describe(self) -> str:
        return f"disk ({self._arena.directory})"

    @property
    def arena(self) -> Arena:
        """The arena of this process, a new one in the child of a fork."""
        arena = self._arena
        if arena.pid != os.getpid():
            arena = self._arena = Arena(arena.directory, arena.limit, arena.checksum)
        return arena

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        if payload.place is None:
            return None
        extent = self.arena.write([to_host(buffer) for buffer in payload.buffers])
        return payload.then(self, (extent,), None)

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        (extent,) = payload.buffers
        with host_outs(outs) as targets:
            extent.arena.read(extent, targets)


class save_on_disk(Policy):  # noqa: N801  # a relative of save_on_cpu
    """Move what is saved for backward to a file, and back when it is read.

    Args:
        directory: where the file is; the system's directory for temporary files by default. On Linux that is sometimes
            in memory (tmpfs), where this gains nothing.
        limit: the most bytes that the file may take, or a text such as ``"20 GiB"``.
        min_bytes: smaller values are left alone.
        checksum: check what is read against what was written.
        parameters: also move what lies in parameters and buffers.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: if no file can be made in ``directory``.

    The file has no name, so nothing is left in the directory after an exception or when the process is killed. What is
    stored dies with the graph that needs it, and its place in the file is used again. When the disk or ``limit`` is
    full, the op that saves raises `OSError`, and everything is as before it.

    >>> policy = save_on_disk(limit="1 GiB")
    >>> policy.statistics().offloaded_bytes
    0
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        limit: int | str | None = None,
        *,
        min_bytes: int | str = "64 KiB",
        checksum: bool = False,
        parameters: bool = False,
    ) -> None:
        stage = DiskStage(directory, None if limit is None else parse_size(limit), checksum)
        self.directory = stage.arena.directory
        super().__init__(stage, min_bytes=min_bytes, parameters=parameters)
