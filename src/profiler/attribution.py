"""Who holds a block: what its events and the user's variables tell."""

from __future__ import annotations

from .block import Block
from .holders import Names
from .model import Holder, LiveBlock, Site
from .sites import RawSite, resolve

_MOST_HOLDERS = 6


class Lines:
    """Source lines of recorded sites, each looked up once."""

    def __init__(self) -> None:
        self._known: dict[RawSite | None, Site | None] = {None: None}

    def __call__(self, site: RawSite | None) -> Site | None:
        if site not in self._known:
            self._known[site] = resolve(site)
        return self._known[site]


def live_block(
    block: Block, category: str, phase: str, t_ns: int, names: Names, lines: Lines, is_older: bool
) -> LiveBlock:
    """A block as the report shows it.

    Args:
        block: the block.
        category: what it counted as at that time.
        phase, t_ns: the time.
        names: the variables that held something then.
        lines: source lines.
        is_older: whether it is older than the recording.
    """
    site = lines(block.site)
    stack = tuple(frame for frame in map(lines, block.stack) if frame is not None) if len(block.stack) > 1 else ()
    return LiveBlock(
        id=block.id,
        nbytes=block.nbytes,
        category=category,
        name=_plain_name(block, names) or block.name or description(block),
        module=block.module,
        op=block.op,
        site=site,
        step=block.step,
        phase=block.phase,
        held_by=holders(block, category, phase, t_ns, names, site),
        is_older=is_older,
        stack=stack,
    )


def _plain_name(block: Block, names: Names) -> str:
    """What the user's variable calls a block that has no name of its own."""
    if block.name:
        return ""
    named = next((name for name in names.get(block.id, ()) if name.is_plain), None)
    return "" if named is None else f"{named.root} {description(block)}"


def description(block: Block) -> str:
    """What a block is, for one that has no name: its op, shape and dtype."""
    if block.dtype is None and block.op:
        return f"{block.op} workspace"  # of a library
    if block.born_as == "temporary" and block.op and str(block.dtype) == "uint8" and len(block.shape or ()) == 1:
        return f"{block.op} scratch"  # raw memory of a kernel
    shape = "" if block.shape is None else "x".join(map(str, block.shape)) or "scalar"
    dtype = "" if block.dtype is None else str(block.dtype)
    return " ".join(part for part in (block.op, shape, dtype) if part)


def holders(block: Block, category: str, phase: str, t_ns: int, names: Names, site: Site | None) -> tuple[Holder, ...]:
    """All that keep a block alive, as far as it is known; the one that keeps it longest comes first."""
    if category in ("parameter", "buffer", "gradient"):
        return (Holder("module", f"{category} of {block.owner}" if block.owner else category),)
    if category in ("optimizer_state", "optimizer_temporary"):
        what = "state" if category == "optimizer_state" else "temporary"
        optimizer = block.op.removesuffix(".step")
        return (Holder("optimizer", f"{what} of {optimizer}" if optimizer else what),)
    found = [Holder("python", name.text, _line_of(name.site(), site)) for name in names.get(block.id, ())]
    if block.is_saved_at(t_ns) and block.saved_by is not None:
        found.append(Holder("saved_tensor", ": ".join(block.saved_by), site))
    elif category == "saved_packed":
        found.append(Holder("saved_tensor", f"packed, {block.op}" if block.op else "packed", site))
    if found:
        return tuple(found[:_MOST_HOLDERS])
    if category == "input":
        return (Holder("python", "memory of the user's own", site),)
    if category == "temporary" or (block.phase == phase and phase in ("backward", "recompute")):
        return (Holder("engine", _engine(block), site),)
    return (Holder("unknown", "", site),)


def _line_of(bound: Site | None, born: Site | None) -> Site | None:
    """The line that a variable is shown at: where the block was made, if that was in the same function."""
    if bound is not None and born is not None and (bound.file, bound.name) == (born.file, born.name):
        return born
    return bound or born


def _engine(block: Block) -> str:
    """Until when the engine needs a block of its own."""
    if block.until and block.phase in ("backward", "recompute"):
        return f"until {block.until} ends"
    return f"in {block.op or 'backward'}"
