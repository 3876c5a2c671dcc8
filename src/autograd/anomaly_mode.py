"""Anomaly mode: where a node that fails in backward was recorded, and a check of what nodes return.

NOTE [ Anomaly mode ]
1. It is of the whole process, like PyTorch's, and slow. While it is on, an observer notes the stack of every node that
   is recorded; nodes don't know of it, and nothing is looked at for it while it is off.
2. Only texts are kept: neither frames nor tensors. They go with the node, whose ``metadata["traceback_"]`` they are.
3. A node that was recorded in a backward pass also has the stack of the node that ran then.
"""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..memory import META, events, pool, storage_of
from ..saved_tensors.state import anomaly

_PACKAGE = str(Path(__file__).resolve().parents[1])


class Origin(NamedTuple):
    """Where a node was recorded, and the node whose backward recorded it, if any."""

    name: str
    stack: list[str]
    cause: Origin | None

    def text(self) -> str:
        """The stack as one text."""
        return "".join(self.stack)


class _Recorder(events.Observer):
    """Notes where nodes are recorded."""

    def __init__(self) -> None:
        self._origins: weakref.WeakKeyDictionary[Any, Origin] = weakref.WeakKeyDictionary()
        self._thread = threading.local()

    def origin(self, node: Any) -> Origin | None:
        """Where a node was recorded, or None if anomaly mode was off then."""
        return self._origins.get(node)

    def _running(self) -> list[Any]:
        if not hasattr(self._thread, "nodes"):
            self._thread.nodes = []
        return self._thread.nodes  # type: ignore[no-any-return]

    def begin(self, kind: str, name: str, subject: object = None) -> None:
        if kind == "node":
            self._running().append(self.origin(subject))

    def end(self, kind: str, name: str) -> None:
        if kind == "node" and self._running():
            self._running().pop()

    def recorded(self, node: Any) -> None:
        running = self._running()
        stack = node.metadata["traceback_"] = _stack()
        self._origins[node] = Origin(node.name(), stack, running[-1] if running else None)


def _stack() -> list[str]:
    """The stack as texts, without the library's own calls at its end."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(Path(frame.f_code.co_filename).resolve()).startswith(_PACKAGE):
        frame = frame.f_back
    return traceback.format_stack(frame)


_recorder = _Recorder()


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, looks for NaN."""
    return anomaly.check_nan


def _set(enabled: bool, check_nan: bool) -> None:
    anomaly.enabled, anomaly.check_nan = enabled, check_nan
    (events.add_observer if enabled else events.remove_observer)(_recorder)


class set_detect_anomaly:  # noqa: N801  # PyTorch's name
    """Turn anomaly mode on or off at once; as a context manager, until the end of the block.

    Args:
        mode: whether it is on.
        check_nan: whether NaN in the result of a node is an error.

    While it is on, a node that fails in backward gets a warning that shows where it was recorded.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        _set(bool(mode), bool(check_nan))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        _set(*self._before)


class detect_anomaly:  # noqa: N801  # PyTorch's name
    """Anomaly mode in a block of code.

    Args:
        check_nan: whether NaN in the result of a node is an error.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = bool(check_nan)
        self._before: list[tuple[bool, bool]] = []
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for"
            " debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before.append((anomaly.enabled, anomaly.check_nan))
        _set(True, self._check_nan)

    def __exit__(self, *exc_info: object) -> None:
        _set(*self._before.pop())


def run_node(run: Callable[..., tuple[Any, ...]], node: Any, gradients: list[Any]) -> tuple[Any, ...]:
    """Run a node with ``run(node, gradients)``, under the eyes of anomaly mode where that is on.

    Raises:
        RuntimeError: if there is NaN in what it returns, and that is to be checked.
        Exception: whatever the node raises, after a warning that shows where it was recorded.
    """
    if not anomaly.enabled:
        return run(node, gradients)
    try:
        results = run(node, gradients)
        if anomaly.check_nan:
            for number, result in enumerate(results):
                if result is not None and _has_nan(result):
                    raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    except Exception:
        _explain(node)
        raise
    return results


def _has_nan(gradient: Any) -> bool:
    array = getattr(gradient, "_array", gradient)  # passes send arrays, or tensors under create_graph
    storage = storage_of(array)
    if storage is None or storage.device is META:
        return False
    with pool(storage.device).charge(array.size):
        return bool((array != array).any())


def _explain(node: Any) -> None:
    """Warn, with the stack of the call that recorded a node, and of those that led to it."""
    origin = _recorder.origin(node)
    if origin is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during"
            " forward pass for more information."
        )
    else:
        text = f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{origin.text()}"
    while origin is not None and origin.cause is not None:
        origin = origin.cause
        text += (
            f"\nPrevious calculation was induced by {origin.name}. Traceback of forward call that induced the previous"
            f" calculation:\n{origin.text()}"
        )
    warnings.warn(text, UserWarning, stacklevel=2)
