"""`Record`: all that the engine knows about one op.

NOTE [ Records ]
1. A record has no state. Its instances are called with tensors first and attributes after them.
2. ``infer`` and ``kernel`` take arrays; the results' shapes and dtypes come from ``infer`` alone, so that the ``meta``
   device can stop there.
3. ``saves`` names everything that the node keeps, and for which inputs' gradients it is needed. Nothing else reaches
   the node: its attributes are numbers, texts and shapes.
4. ``backward`` is one formula for two uses. It calls ops through ``do``: on arrays, where nothing is recorded, or on
   tensors under ``create_graph``, where second derivatives follow. A fused array formula goes to ``backward``, its
   differentiable twin to ``formula``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .saved_slots import declare

Spec: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]
Do: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """One value that a node keeps.

    Attributes:
        name: PyTorch's name for it (``self``, ``other``, ``result``).
        position: of the input, or of the output counted from 0 if ``output`` is true.
        output: whether it is an output (auxiliary ones included).
        needed_for: the inputs whose gradients read it; all of them if empty.
    """

    name: str
    position: int
    output: bool = False
    needed_for: tuple[int, ...] = ()


class BoxedGradients(list[Any]):
    """What the engine sends in place of all gradients to a node that lets go of them while it runs."""

    __slots__ = ()


class Record:
    """One op: what its result looks like, how it is computed, what is saved, and its derivative.

    Attributes:
        name: PyTorch's name.
        inputs: how many leading arguments are tensors (or None).
        outputs: how many results the user gets.
        auxiliary: how many more results only the node gets.
        saves: what the node keeps.
        fresh: whether ``backward`` returns arrays of its own, which nothing else refers to.
        differentiable: whether the result can require grad.
        consumes_saved: whether ``backward_once`` is to be used where it may be.
        reads_saved: whether the engine unpacks the saved values for ``backward``.
        runs_without_gradients: whether ``backward`` runs although no gradient has arrived.
        boxed: whether ``backward`` takes `BoxedGradients`.
        flat: whether gradients without a history get one to their inputs under ``create_graph`` (`flat.with_history`).
        scatters: whether ``backward`` on arrays may return `Placed` gradients.
        complex_saved: what the formula gets for complex saved values: ``"conjugated"`` ones (right where it multiplies
            the gradient with a function of them), ``"plain"`` ones (it conjugates by itself); None: they are refused.
        complex_twin: makes the record that hands the formula conjugated values; set by the module that has it.
    """

    name = ""
    inputs = 1
    outputs = 1
    auxiliary = 0
    saves: tuple[Slot, ...] = ()
    fresh = True
    differentiable = True
    consumes_saved = False
    reads_saved = True
    runs_without_gradients = False
    boxed = False
    flat = False
    scatters = False
    complex_saved: str | None = None
    complex_twin: Callable[[Record], Record]

    def __init__(self) -> None:
        self.node_name = "".join(part.capitalize() for part in self.name.split("_")) + "Backward0"
        self._plans: dict[tuple[bool, ...], tuple[Slot | None, ...]] = {}
        self._twin: Record | None = None
        cls = type(self)
        self.rearranges = cls.arranged is not Record.arranged
        self.has_workspace = cls.workspace is not Record.workspace
        declare(slot.name for slot in self.saves)

    def for_complex(self) -> Record:
        """The record of a node that has saved complex values."""
        if self.complex_saved != "conjugated":
            return self
        if self._twin is None:
            self._twin = Record.complex_twin(self)
        return self._twin

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        """Shape (as it lies in memory) and dtype of every result, auxiliary ones included.

        Raises:
            RuntimeError, IndexError, TypeError: for arguments that do not fit.
        """
        raise NotImplementedError(f"{self.name} does not say what its result looks like")

    def arranged(self, arrays: list[Any]) -> list[Any]:
        """The leased arrays as the kernel fills and the user sees them: views, where memory has another order."""
        return arrays

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        """Fill the results: called with the kernels of a device, the arguments, then the arrays to fill."""
        raise NotImplementedError(f"{self.name} has no kernel")

    def workspace(self, *args: Any) -> int:
        """Bytes that NumPy allocates by itself while the kernel runs."""
        return 0

    def attrs(self, *args: Any) -> Any:
        """What ``backward`` must know about the arguments besides saved values: never an array."""
        return args[self.inputs :]

    def number(self, node: Any, slot: Slot) -> Any:
        """The Python number that the op got in place of the tensor that a slot is for, or None."""
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        """Gradients of the inputs, None where none is needed."""
        raise NotImplementedError(f"the derivative of {self.name} is not implemented")

    def backward_once(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        """`backward` when nobody will read the saved arrays again: it may write into them and hand them on."""
        return self.backward(do, node, saved, *grads)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        """The same with differentiable ops only: what runs under ``create_graph``."""
        return self.backward(do, node, saved, *grads)

    def plan(self, needs: tuple[bool, ...]) -> tuple[Slot | None, ...]:
        """Which slots are filled when the inputs that ``needs`` marks need gradients."""
        found = self._plans.get(needs)
        if found is None:
            found = self._plans[needs] = tuple(slot if _is_needed(slot, needs) else None for slot in self.saves)
        return found

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _is_needed(slot: Slot, needs: tuple[bool, ...]) -> bool:
    return not slot.needed_for or any(needs[number] for number in slot.needed_for)


def broadcast_shapes(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands.

    Raises:
        RuntimeError: if there is none.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    if len(shapes) == 2:  # rows beside a matrix: NumPy's answer takes 3 us
        longer, shorter = shapes if len(first) > len(shapes[1]) else shapes[::-1]
        if longer[len(longer) - len(shorter) :] == shorter:
            return longer
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise RuntimeError(
            f"{name}: shapes {listed} do not broadcast; from the last dimension backwards, sizes must be equal or 1"
        ) from None


def normalize_dim(name: str, dim: int, ndim: int) -> int:
    """``dim`` counted from the front.

    Raises:
        IndexError: if there is no such dimension.
    """
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound
