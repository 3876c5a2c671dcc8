"""The ops of a region's second run, compared with those of its first."""

from __future__ import annotations

from typing import Any

from ..saved_tensors.lines import Line, text_of, user_line
from ..saved_tensors.payload import to_host
from .oplog import CheckpointError, OpLog

# How many ops before and after the difference an error shows, unless it shows all.
_BEFORE, _AFTER = 5, 3
_HINT = (
    "The function must do the same again: look for global state, or randomness that is not restored. What is to happen"
    " once only, such as logging, belongs into checkpoint.update_state()."
)


class Comparison:
    """The ops of a second run beside those of the first.

    Args:
        first: the first run.
        checked: whether another op, or another tensor from outside, is an error.
        whole: whether errors list all ops of both runs with their lines, instead of the names around the difference.
    """

    def __init__(self, first: OpLog, checked: bool, whole: bool) -> None:
        self._first = first
        self._checked = checked
        self._whole = whole
        self.ops: list[tuple[str, Line | None]] = []

    def ran(self, op: str, inputs: tuple[Any, ...]) -> None:
        """Note an op of the second run.

        Raises:
            CheckpointError: if the first run did another one here, or read another tensor from outside of the region.
        """
        number = len(self.ops)
        self.ops.append((op, user_line()))
        if not self._checked:
            return
        if op != _name(self._first.ops, number) or number >= len(self._first.ops):
            raise CheckpointError(
                "stowgrad.checkpoint: another operation ran when the region was computed again\n"
                f"  operation {number}, in forward: {_line(self._first.ops, number)}\n"
                f"  operation {number}, recomputed: {_line(self.ops, number)}\n{self.listing(number)}{_HINT}"
            )
        for position, storage, array in self._first.outside.get(number, ()):
            value = inputs[position]
            if getattr(value, "_storage", None) is not storage and not _same(array, getattr(value, "_array", None)):
                raise CheckpointError(
                    "stowgrad.checkpoint: an operation read another tensor when the region was computed again\n"
                    f"  operation {number}, input {position}, in forward: {_text(array)}, category"
                    f" {storage.category}\n  operation {number}, input {position}, recomputed: {_text(value)}\n"
                    f"{self.place()}Run backward before giving the attribute or variable another tensor, or pass the"
                    " tensor to the function as an argument."
                )

    @property
    def number(self) -> int:
        """Of the present op."""
        return len(self.ops) - 1

    def place(self) -> str:
        """Where the second run is, and where the first was, for an error."""
        number = self.number
        return (
            f"  in forward: {_line(self._first.ops, number)}\n  recomputed: {_line(self.ops, number)}\n"
            f"{self.listing(number)}"
        )

    def counts(self, expected: int, got: int) -> CheckpointError:
        """The error for another number of saved values."""
        first, second = self._first.ops, self.ops
        both = min(len(first), len(second))
        number = next((here for here in range(both) if first[here][0] != second[here][0]), both)
        return CheckpointError(
            "stowgrad.checkpoint: a different number of tensors was saved when the region was computed again\n"
            f"  in forward: {expected}\n  recomputed: {got}\n"
            f"  first difference, operation {number}, in forward: {_line(first, number)}\n"
            f"  first difference, operation {number}, recomputed: {_line(second, number)}\n"
            f"{self.listing(number)}{_HINT}"
        )

    def listing(self, number: int) -> str:
        """The ops of both runs side by side: around one of them, or all."""
        first, second = self._first.ops, self.ops
        end = max(len(first), len(second))
        shown = range(end) if self._whole else range(max(number - _BEFORE, 0), min(number + _AFTER + 1, end))
        cells = _with_line if self._whole else _name
        rows = [("", "", "forward", "recomputed")]
        for here in shown:
            left = cells(first, here)
            # The second run has stopped at its last op: what would have followed is not known.
            right = cells(second, here) if here < len(second) or number >= len(second) else ""
            rows.append(("!" if here == number else " ", str(here), left, right))
        width = max(len(row[2]) for row in rows)
        text = [f"  {mark:1} {which:>4}  {left:{width}}  {right}".rstrip() for mark, which, left, right in rows]
        return "\n".join([*text, ""])


def _same(array: Any, other: Any) -> bool:
    if other is None or array.shape != other.shape or array.dtype != other.dtype:
        return False
    return bool(to_host(array).tobytes() == to_host(other).tobytes())


def _text(value: Any) -> str:
    return f"shape {list(value.shape)}, {value.dtype}" if hasattr(value, "shape") else repr(value)


def _name(ops: list[tuple[str, Line | None]], number: int) -> str:
    return ops[number][0] if 0 <= number < len(ops) else "nothing"


def _line(ops: list[tuple[str, Line | None]], number: int) -> str:
    return f"{ops[number][0]}, at {text_of(ops[number][1])}" if 0 <= number < len(ops) else "nothing more"


def _with_line(ops: list[tuple[str, Line | None]], number: int) -> str:
    return f"{ops[number][0]} ({text_of(ops[number][1])})" if 0 <= number < len(ops) else "nothing"
