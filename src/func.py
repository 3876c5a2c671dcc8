"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jacobian`, nested as deep as one likes.

The function gets tensors in place of the arrays that it is differentiated for, so its operations are recorded. Where it
is called with NumPy arrays and Python numbers, what comes back are NumPy arrays; where it is called with tensors (by
another of these functions, say), they are tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .autograd import Tensor
from .autograd import grad as _gradients
from .autograd.creation import from_numpy, zeros, zeros_like
from .autograd.entries import leaves_no_tensors
from .autograd.functions import stack
from .autograd.grad_mode import enable_grad

__all__ = ["grad", "jacobian", "value_and_grad", "vjp"]

# How many of these functions are at work in this context: inside of another one, gradients are recorded themselves.
_depth: ContextVar[int] = ContextVar("stowgrad_func_depth", default=0)


def value_and_grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of ``function`` and its gradient.

    Args:
        function: takes arrays (or nested tuples, lists and dicts of them) and returns a scalar.
        argnums: which positional arguments to differentiate for.

    Returns:
        A function with the arguments of ``function``. The gradient has the structure and the shapes of the argument;
        for several ``argnums`` it is a tuple. An argument that the value does not depend on gets zeros.

    Raises:
        TypeError: when called, if an argument holds no floating-point numbers, or ``function`` returns no tensor.
        RuntimeError: when called, if ``function`` returns more than a scalar.
        IndexError: when called, if there is no such argument.

    >>> import numpy as np
    >>> value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    @leaves_no_tensors
    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        trace = _Trace(function, argnums, args, kwargs)
        if trace.value.ndim:
            raise RuntimeError(
                f"grad: expected {trace.name} to return a scalar, got a tensor of shape"
                f" {list(trace.value.shape)}; reduce it, or use jacobian"
            )
        found = trace.gradients(None, False, trace.recorded)
        return trace.given_back(trace.value), trace.arranged(found)

    return both


def grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the gradient of ``function``: the second part of what `value_and_grad` returns.

    >>> cube = lambda x: x * x * x
    >>> grad(cube)(2.0), grad(grad(cube))(2.0), grad(grad(grad(cube)))(2.0)
    (np.float64(12.0), np.float64(12.0), np.float64(6.0))
    """
    both = value_and_grad(function, argnums)

    @leaves_no_tensors
    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def vjp(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of ``function(*primals)``, and a function from a cotangent to the gradients at the primals.

    Args:
        function: takes arrays (or nested structures of them) and returns an array.
        primals: where to evaluate it; it is differentiated for all of them.

    Returns:
        The value, and a function that takes an array of the value's shape and returns one gradient for each primal. It
        may be called more than once.

    Raises:
        TypeError: as `value_and_grad`.

    >>> import numpy as np
    >>> value, pull_back = vjp(lambda x: x * x, np.array([1.0, 2.0]))
    >>> pull_back(np.array([1.0, 10.0]))
    (array([ 2., 40.]),)
    """
    trace = _Trace(function, tuple(range(len(primals))), primals, {})

    return trace.given_back(trace.value), trace.pull_back


def jacobian(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``function``: of shape ``(*value.shape, *argument.shape)``.

    One backward pass runs for each element of the value; complex values and arguments follow PyTorch's convention.

    Raises:
        TypeError: as `value_and_grad`.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    @leaves_no_tensors
    @functools.wraps(function)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        trace = _Trace(function, argnums, args, kwargs)
        shape = trace.value.shape
        rows = []
        for number in range(trace.value.numel()):
            seed = np.zeros(trace.value.numel(), trace.value.dtype)
            seed[number] = 1
            rows.append(trace.gradients(_tensor(seed.reshape(shape), trace.value), True, trace.recorded))
        found = []
        for number, leaf in enumerate(trace.leaves):
            parts = [row[number] for row in rows]
            whole = stack(parts) if parts else zeros((0, *leaf.shape), dtype=leaf.dtype, device=leaf.device)
            found.append(whole.reshape((*shape, *leaf.shape)))
        return trace.arranged(found)

    return derivative


class _Trace:
    """One evaluation of a function whose operations are recorded, for some of its arguments.

    Attributes:
        name: the name of the function.
        leaves: the tensors to differentiate for, in the order in which they stand in the arguments.
        value: what the function returned: a tensor.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | tuple[int, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.leaves: list[Any] = []
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._one = isinstance(argnums, int)
        self._numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._args = args
        for number in self._numbers:
            if not -len(args) <= number < len(args):
                raise IndexError(f"{self.name}: no argument {number}; it was called with {len(args)} positional ones")
        tensors = [leaf for leaf in _leaves([args, kwargs]) if isinstance(leaf, Tensor)]
        nested = _depth.get() > 0
        self.recorded = nested or any(tensor.requires_grad for tensor in tensors)
        self._in_tensors = nested or bool(tensors)
        with _deeper():
            chosen = {number % len(args) for number in self._numbers}
            traced = [_mapped(self._leaf, arg) if n in chosen else arg for n, arg in enumerate(args)]
            self.value = function(*traced, **kwargs)
        if not isinstance(self.value, Tensor):
            raise TypeError(
                f"expected {self.name} to return a Tensor computed from its arguments, got"
                f" {type(self.value).__name__}: nothing is known of how it depends on them"
            )

    def _leaf(self, value: Any) -> Any:
        """A tensor of its own for each array: what else refers to a tensor has no part in the derivative."""
        if isinstance(value, Tensor):
            tensor: Any = value.view_as(value) if value.requires_grad else value.detach().requires_grad_()
        else:
            array = np.asarray(value)
            if array.dtype.kind not in "fcV":
                raise TypeError(
                    f"{self.name}: gradients need floating-point arguments, got {type(value).__name__}"
                    f" ({array.dtype}); convert it first"
                )
            tensor = from_numpy(array).requires_grad_()
        self.leaves.append(tensor)
        return tensor

    def gradients(self, seed: Any, keep: bool, recorded: bool) -> list[Any]:
        """The gradient of the value, times a seed, at each leaf; zeros where it does not depend on it.

        Args:
            keep: whether the graph will be used again.
            recorded: whether derivatives of the gradients will be asked for.
        """
        if not self.value.requires_grad:
            return [zeros_like(leaf) for leaf in self.leaves]
        return list(
            _gradients(
                self.value,
                self.leaves,
                seed,
                retain_graph=keep or recorded,
                create_graph=recorded,
                allow_unused=True,
                materialize_grads=True,
            )
        )

    @leaves_no_tensors
    def pull_back(self, cotangent: Any) -> tuple[Any, ...]:
        """The gradients, one for each argument, from a cotangent: arrays, or tensors where one is involved."""
        seed = _tensor(cotangent, self.value)
        recorded = self.recorded or _depth.get() > 0 or seed.requires_grad
        in_tensors = recorded or isinstance(cotangent, Tensor)
        found: tuple[Any, ...] = self.arranged(self.gradients(seed, True, recorded), in_tensors)
        return found

    def arranged(self, found: list[Any], in_tensors: bool = False) -> Any:
        """Gradients in the structure of the arguments."""
        remaining: Iterator[Any] = iter(found)
        trees = [
            _mapped(lambda _: self.given_back(next(remaining), in_tensors), self._args[number])
            for number in self._numbers
        ]
        return trees[0] if self._one else tuple(trees)

    def given_back(self, tensor: Any, in_tensors: bool = False) -> Any:
        """A tensor where tensors were given, a NumPy array elsewhere; with a history only if one is asked for."""
        if not self._in_tensors and not in_tensors:
            return tensor.detach().numpy()[()]
        return tensor if self.recorded or in_tensors else tensor.detach()


@contextmanager
def _deeper() -> Iterator[None]:
    """A region in which gradients are recorded, and these functions know that another one of them is at work."""
    token = _depth.set(_depth.get() + 1)
    try:
        with enable_grad():
            yield
    finally:
        _depth.reset(token)


def _tensor(cotangent: Any, value: Any) -> Any:
    """A cotangent as a tensor like the value."""
    if isinstance(cotangent, Tensor):
        return cotangent
    return from_numpy(np.asarray(cotangent, value._array.dtype)).to(value.device)


def _mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """A structure with each of its leaves changed."""
    if isinstance(tree, dict):
        return {key: _mapped(change, part) for key, part in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[_mapped(change, part) for part in tree])
    if isinstance(tree, tuple | list):
        return type(tree)([_mapped(change, part) for part in tree])
    return change(tree)


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    _mapped(found.append, tree)
    return found
