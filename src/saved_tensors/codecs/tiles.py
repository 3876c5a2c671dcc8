"""The elements of an array a tile at a time: on several threads where it lies in one run, else one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernels.executor import ScratchSpec, parallel_slices, scratch_set
from ...kernels.numpy_.tiling import numpy_workspace
from ..payload import byte_runs
from .host import HostArray

# Elements. Long enough that a thread which waits for the interpreter's lock doesn't wait for most of its time.
TILE = 1 << 17


def for_tiles(
    array: HostArray,
    function: Callable[..., object],
    specs: Sequence[ScratchSpec] = (),
    tile: int = TILE,
    workspace: int = 0,
) -> None:
    """Call ``function(start, numbers, *scratch)`` for each tile of an array, whose elements are taken in C order.

    Args:
        array: of any strides; ``numbers`` is flat, and ``start`` says where it begins.
        function: writes what it makes of the numbers somewhere; tiles have nothing in common.
        specs: shape and dtype of each scratch array that it wants.
        tile: elements.
        workspace: bytes for each element of a tile that NumPy allocates for itself in ``function``.
    """
    with numpy_workspace(workspace, array.size, tile):
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            parallel_slices(lambda part, *scratch: function(part.start, flat[part], *scratch), flat.size, tile, specs)
            return
        scratch, start = scratch_set(specs), 0
        for run in byte_runs(array, tile * array.itemsize):
            numbers = run.view(array.dtype)
            function(start, numbers, *scratch)
            start += numbers.size
