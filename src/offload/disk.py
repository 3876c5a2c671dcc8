"""`save_on_disk`: keep what is saved for backward in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ..memory import CPU, parse_size
from ..saved_tensors import Payload, Policy, Site, Stage
from ..saved_tensors.layout import Array
from ..saved_tensors.payload import host_outs, to_host
from .arena import Arena
from .file import default_directory, lies_in_memory


class DiskStage(Stage):
    """Writes buffers to an arena (NOTE [ Arenas ]), one for each process that packs."""

    name = "disk"

    def __init__(self, arena: Arena, in_memory: bool = False) -> None:
        self._arena = arena
        self._in_memory = in_memory

    def describe(self) -> str:
        return f"disk ({self._arena.directory})"

    @property
    def arena(self) -> Arena:
        """The arena that is written: a new one after a fork, on both sides of it."""
        arena = self._arena
        if not arena.takes:
            arena = self._arena = arena.another()
        return arena

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        if payload.place is None:
            return None
        extent = self.arena.write([to_host(buffer) for buffer in payload.buffers])
        return payload.then(self, (extent,), None)

    def saved_again(self, payload: Payload) -> None:
        (extent,) = payload.buffers
        extent.arena.saved_again(extent)

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        (extent,) = payload.buffers
        with host_outs(outs) as targets:
            extent.arena.read(extent, targets)

    def hand_over(self, payload: Payload) -> tuple[Array, ...] | None:
        (extent,), done = payload.buffers, payload.undo[-1]
        if done.place is not CPU or len(done.specs) != 1:
            return None
        pages = extent.arena.take(extent)
        if pages is None:
            return None
        (spec,) = done.specs
        return (pages[: extent.nbytes].view(spec.dtype).reshape(spec.shape),)

    def synchronize(self) -> None:
        if self._arena.pid == os.getpid():
            self._arena.synchronize()

    def without_effect(self) -> Iterator[str]:
        if not self._arena.file.direct:
            yield f"disk, transfers around the page cache: {self._arena.directory} has none, so they go through it"
        if self._in_memory and not lies_in_memory(self._arena.directory):
            yield f"disk, in_memory=True: the files of {self._arena.directory} aren't in memory"


class save_on_disk(Policy):  # noqa: N801  # a relative of save_on_cpu
    """Move what is saved for backward to a file, and back when it is read.

    Args:
        directory: where the file is; by default the system's directory for temporary files, or ``/var/tmp`` where that
            is in memory.
        limit: the most bytes that the file may take, or a text such as ``"20 GiB"``.
        min_bytes: smaller values are left alone.
        checksum: check what is read against what was written.
        staging: the most memory for values on their way to the disk, and as much for values that are read before they
            are needed; both are counted, and transfers go on beside the program. 0: each transfer is waited for.
        in_memory: accept a directory whose files are in memory (tmpfs), where this gains nothing.
        parameters: also move what lies in parameters and buffers.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: if no file can be made in ``directory``.
        ValueError: if its files are in memory.

    The file has no name, so nothing is left in the directory after an exception or when the process is killed. What is
    stored dies with the graph that needs it, and its place in the file is used again. A value of whole pages is written
    from where it lies: its memory is kept until then, and the program waits before it changes it in place. When the
    disk or ``limit`` is full, the op that saves raises `OSError`, and everything is as before it. A write that fails
    later is raised by the next op that saves (or by `synchronize`); the value that it was for is in memory, and
    backward finds it there.

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
        checksum: bool = True,
        staging: int | str = "64 MiB",
        in_memory: bool = False,
        parameters: bool = False,
    ) -> None:
        self.directory = default_directory() if directory is None else os.fspath(directory)
        most = None if limit is None else parse_size(limit)
        arena = Arena(self.directory, most, checksum, parse_size(staging) if staging else 0)
        if not in_memory and lies_in_memory(self.directory):
            raise ValueError(
                f"save_on_disk: the files of {self.directory} are in memory (tmpfs), so values would only move from"
                " memory to memory; name a directory on a disk, or pass in_memory=True"
            )
        super().__init__(DiskStage(arena, in_memory), min_bytes=min_bytes, parameters=parameters)

    @property
    def arena(self) -> Arena:
        """The file: how many bytes it has written and read, and how many it holds."""
        stage = self._links[0].stage
        assert isinstance(stage, DiskStage)
        return stage.arena
