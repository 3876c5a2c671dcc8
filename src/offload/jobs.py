"""What an arena leaves to its threads, or to whoever writes into a value; none of it keeps what it is about alive."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Callable

from .extent import Ahead, Extent


def letting_go(reference: weakref.ref[Extent]) -> Callable[[], None]:
    """What is done before the program writes into the memory that a value is written from."""

    def let_go() -> None:
        extent = reference()
        if extent is not None:
            extent.arena.let_go(extent)

    return let_go


def write_job(reference: weakref.ref[Extent]) -> Callable[[], None]:
    """What the writer does: it holds neither the value nor the arena until it begins."""

    def job() -> None:
        extent = reference()
        try:
            staging = None if extent is None else extent.staging
            if extent is not None and staging is not None:
                extent.arena.write_pages(extent, staging, 0)
                extent.written()
        except OSError as error:
            assert extent is not None
            extent.arena.failed(error)
        except BaseException as error:
            assert extent is not None
            extent.arena.failed(OSError(errno.EIO, f"the writer was stopped by {type(error).__name__}: {error}"))
            raise

    return job


def read_job(reference: weakref.ref[Extent], target: weakref.ref[Ahead]) -> Callable[[], None]:
    """What the reader does; a failure is left to whoever reads the value."""

    def job() -> None:
        extent, ahead = reference(), target()
        if extent is None or ahead is None:
            return
        try:
            extent.arena.check(extent, extent.arena.read_pages(extent, ahead.pages, 0))
            ahead.succeed()
        except OSError:
            pass
        finally:
            ahead.arrived.set()

    return job
