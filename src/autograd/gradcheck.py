"""`gradcheck` and `gradgradcheck`: gradients beside differences.

NOTE [ How gradients are checked ]
1. Everything is real: a complex number is two reals. Row j of a Jacobian is the gradient of the j-th real of an output,
   column i what moves when the i-th real of an input does; both come from the engine and from central differences.
2. Inputs are moved by writing into their arrays and back. The values are the same afterwards, so that no version counts
   it: the graph that the user may hold stays good.
3. Fast mode compares one number for each pair of output and input: the Jacobian between two random vectors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..memory import CPU
from ..saved_tensors.state import Under
from .arrays import overlaps_itself
from .backward import grad
from .frames import user_level
from .function import Function
from .ops.cast import copy_array_to
from .ops.promotion import is_floating
from .variable import Variable

Matrix = np.ndarray[Any, np.dtype[np.float64]]


class GradcheckError(RuntimeError):
    """What the engine computes isn't what it should be."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare the gradients of a function with central differences.

    Args:
        func: takes the inputs; returns a tensor or several.
        inputs: one or several; those that require grad are checked and should be float64.
        eps: how far inputs are moved.
        atol, rtol: how much gradients and differences may differ, absolutely and relative to the difference.
        raise_exception: raise where False would be returned.
        nondet_tol: how much the results of two equal backward passes may differ.
        check_undefined_grad: also let gradients of outputs be undefined.
        check_grad_dtypes: also compare the dtypes of gradients and inputs.
        check_batched_grad: also compare ``grad(is_grads_batched=True)`` with single passes.
        check_forward_ad: not supported.
        check_backward_ad: has to be True.
        fast_mode: check one random projection of each Jacobian.

    Returns:
        True if all is right, False if not and ``raise_exception`` is False.

    Raises:
        GradcheckError: if gradients and differences differ, if backward isn't reproducible or does not scale with the
            gradient of the output.
        ValueError: if no input requires grad, or nothing is to be checked.
        RuntimeError: for an input whose elements overlap.
        NotImplementedError: for ``check_forward_ad``.

    >>> import stowgrad
    >>> x = stowgrad.tensor([1.0, 2.0], dtype=stowgrad.float64, requires_grad=True)
    >>> gradcheck(lambda x: (x * x).exp(), x)
    True
    """
    if check_forward_ad:
        raise NotImplementedError("gradcheck: check_forward_ad=True needs forward-mode AD, which is not there yet")
    if not check_backward_ad:
        raise ValueError("Expected at least one of check_forward_ad or check_backward_ad to be true")
    values = inputs if isinstance(inputs, tuple | list) else (inputs,)
    check = _Check(func, tuple(values), eps, atol, rtol, fast_mode)
    try:
        check.jacobians(nondet_tol)
        check.scaling(check_grad_dtypes)
        if check_undefined_grad:
            check.undefined_gradients()
        if check_batched_grad:
            check.batched()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    fast_mode: bool = False,
) -> bool:
    """Compare the gradients of gradients with central differences: `gradcheck` of the backward graph.

    Args:
        grad_outputs: the gradients of the outputs, which are checked as inputs too; random ones by default.

    The rest is as for `gradcheck`.

    >>> import stowgrad
    >>> x = stowgrad.tensor([1.0, 2.0], dtype=stowgrad.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: (x * x).exp(), x)
    True
    """
    values = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = tuple(_as_leaf(_random(rng, out), out) for out in _differentiable(func(*values)))
    else:
        seeds = tuple(grad_outputs) if isinstance(grad_outputs, tuple | list) else (grad_outputs,)

    def first_derivatives(*args: Any) -> tuple[Any, ...]:
        given, gradients = args[: len(values)], args[len(values) :]
        wanted = [value for value in given if isinstance(value, Variable) and value._requires_grad]
        with Under(grad_enabled=True):
            outputs = _differentiable(func(*given))
            found = grad(outputs, wanted, gradients, create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in found if gradient is not None)

    return gradcheck(
        first_derivatives,
        (*values, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
    )


# Both readings of PyTorch's path: the function and the module have one name.
gradcheck.GradcheckError = GradcheckError  # type: ignore[attr-defined]


class _Undefined(Function):
    """Hands values on, and sends no gradient back."""

    @staticmethod
    def forward(ctx: Any, *values: Any) -> Any:
        return tuple(value._alias() for value in values)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return (None,) * len(grad_outputs)


class _Check:
    """One call of `gradcheck`.

    Raises:
        ValueError: if no input requires grad.
        RuntimeError: for an input whose elements overlap.
    """

    def __init__(
        self, func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, fast: bool
    ) -> None:
        self._func = func
        self._inputs = inputs
        self._eps, self._atol, self._rtol, self._fast = eps, atol, rtol, fast
        self._wanted = [value for value in inputs if isinstance(value, Variable) and value._requires_grad]
        _check_inputs(inputs)
        self._rng = np.random.default_rng(0)

    def _outputs(self) -> list[Any]:
        return _differentiable(self._func(*self._inputs))

    def _gradients(self, output: Any, seed: Matrix) -> list[Any]:
        """The gradients of all inputs (None where an output doesn't depend on one) from reals of an output's."""
        return list(grad(output, self._wanted, _like(seed, output), retain_graph=True, allow_unused=True))

    # -- gradients beside differences ---------------------------------------------------------------------------------

    def jacobians(self, nondet_tol: float) -> None:
        """Compare the Jacobians of each output for each input."""
        outputs = self._outputs()
        if not outputs:
            self._constant()
            return
        for number, output in enumerate(outputs):
            size = _reals(_host(output)).size
            rows = self._rng.uniform(0.1, 1.0, (1, size)) if self._fast else np.eye(size)
            analytical = self._analytical(output, rows)
            again = self._analytical(output, rows)
            for position, tensor in enumerate(self._wanted):
                width = _reals(_host(tensor)).size
                columns = self._rng.uniform(0.1, 1.0, (width, 1)) if self._fast else np.eye(width)
                numerical = rows @ self._differences(tensor, columns, number)
                got = analytical[position] @ columns
                self._compare(
                    number, position, numerical, got, float((rows.sum() * columns.sum()) if self._fast else 1)
                )
                if np.abs(analytical[position] - again[position]).max(initial=0.0) > nondet_tol:
                    raise GradcheckError(
                        f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple"
                        f" times gives different values for input {position}, although analytical gradient matches"
                        f" numerical gradient. The tolerance for nondeterminism was {nondet_tol}."
                    )

    def _analytical(self, output: Any, rows: Matrix) -> list[Matrix]:
        """For each input, the Jacobian's rows, or sums of them: one pass backward for each."""
        found = [np.zeros((len(rows), _reals(_host(tensor)).size)) for tensor in self._wanted]
        for row, seed in enumerate(rows):
            for matrix, gradient in zip(found, self._gradients(output, seed), strict=True):
                if gradient is not None:
                    matrix[row] = _reals(_host(gradient))
        return found

    def _differences(self, tensor: Any, columns: Matrix, number: int) -> Matrix:
        """The slopes of an output along directions of an input, by central differences."""
        start = _reals(_host(tensor)).copy()
        slopes = []
        try:
            for direction in columns.T:
                ends = []
                for step in (self._eps, -self._eps):
                    _write(tensor, start + step * direction)
                    ends.append(_reals(_host(self._outputs_anyhow()[number])).astype(np.float64))
                slopes.append((ends[0] - ends[1]) / (2 * self._eps))
        finally:
            _write(tensor, start)
        return np.stack(slopes, axis=1) if slopes else np.zeros((0, 0))

    def _outputs_anyhow(self) -> list[Any]:
        found = self._outputs()
        return found or _tensors(self._func(*self._inputs))

    def _compare(self, number: int, position: int, numerical: Matrix, analytical: Matrix, scale: float) -> None:
        if not np.allclose(analytical, numerical, rtol=self._rtol, atol=self._atol * max(1.0, scale)):
            raise GradcheckError(
                f"Jacobian mismatch for output {number} with respect to input {position},\n"
                f"numerical:{numerical}\nanalytical:{analytical}\n"
                + ("(fast mode: between two random vectors)" if self._fast else "(rows: output, columns: input)")
            )

    def _constant(self) -> None:
        """Nothing is differentiable, so nothing may move."""
        for number in range(len(_tensors(self._func(*self._inputs)))):
            for tensor in self._wanted:
                slopes = self._differences(tensor, np.eye(_reals(_host(tensor)).size), number)
                if np.abs(slopes).max(initial=0.0) > self._atol:
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    # -- what else backward must do -----------------------------------------------------------------------------------

    def scaling(self, check_dtypes: bool) -> None:
        """Zero gradients of outputs must give zero gradients of inputs, which must look like the inputs."""
        outputs = self._outputs()
        if not outputs:
            return
        zeros = [_like(np.zeros(_reals(_host(out)).size), out) for out in outputs]
        found = grad(outputs, self._wanted, zeros, retain_graph=True, allow_unused=True)
        for gradient, tensor in zip(found, self._wanted, strict=True):
            if gradient is None:
                continue
            if np.any(_host(gradient)):
                raise GradcheckError("backward not multiplied by grad_output")
            if gradient._array.shape != tensor._array.shape:
                raise GradcheckError(
                    f"grad is incorrect size: expected {list(tensor._array.shape)}, got {list(gradient._array.shape)}"
                )
            if check_dtypes and gradient._array.dtype != tensor._array.dtype:
                raise GradcheckError(
                    f"grad is incorrect type: expected {tensor._array.dtype}, got {gradient._array.dtype}"
                )

    def undefined_gradients(self) -> None:
        """Backward must take undefined gradients: for all outputs, and for each alone."""
        count = len(self._outputs())
        choices = [set(range(count))] + [{number} for number in range(count) if count > 1]
        for undefined in choices if count else []:
            outputs = self._outputs()
            blocked = iter(_Undefined.apply(*[outputs[number] for number in sorted(undefined)]))
            roots = [next(blocked) if number in undefined else out for number, out in enumerate(outputs)]
            # those that are defined are zero, so that all that comes out must be
            seeds = [_like(np.full(_reals(_host(out)).size, float(i in undefined)), out) for i, out in enumerate(roots)]
            try:
                found = grad(roots, self._wanted, seeds, allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError(f"Expected backward function to handle undefined output grads: {error}") from error
            except Exception as error:
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads; it raised {type(error).__name__}:"
                    f" {error}"
                ) from error
            if any(gradient is not None and np.any(_host(gradient)) for gradient in found):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
                )

    def batched(self) -> None:
        """One pass with a batch of gradients must give what single passes do."""
        for number, output in enumerate(self._outputs()):
            size = _reals(_host(output)).size
            seeds = self._rng.standard_normal((2, size))
            single = self._analytical(output, seeds)
            array = np.stack([_host(_like(seed, output)) for seed in seeds])
            batch = _wrap(array, output)
            options: dict[str, Any] = {"is_grads_batched": True, "retain_graph": True, "allow_unused": True}
            try:
                found = grad(output, self._wanted, batch, **options)
            except TypeError as error:
                raise ValueError(f"gradcheck: check_batched_grad=True is not supported here: {error}") from error
            for position, (gradient, expected) in enumerate(zip(found, single, strict=True)):
                got = np.zeros_like(expected) if gradient is None else np.stack([_reals(g) for g in _host(gradient)])
                if not np.allclose(got, expected, rtol=self._rtol, atol=self._atol):
                    raise GradcheckError(
                        f"While computing batched gradients, got other values than one by one, for output {number} and"
                        f" input {position}:\nbatched:{got}\none by one:{expected}"
                    )


# -- tensors as vectors of reals ---------------------------------------------------------------------------------------


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    any_wanted = False
    for number, value in enumerate(inputs):
        if not isinstance(value, Variable) or not value._requires_grad:
            continue
        any_wanted = True
        if value._array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"Input #{number} requires gradient and is not a double precision floating point or complex. This check"
                " will likely fail if all the inputs are not of double precision floating point or complex.",
                UserWarning,
                stacklevel=user_level(),
            )
        if overlaps_itself(value._array):
            raise RuntimeError(
                f"The {number}th input has a dimension with stride 0. gradcheck only supports inputs that are"
                " non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous"
                " on the input before passing it to gradcheck."
            )
    if not any_wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have"
            " requires_grad=True."
        )


def _tensors(result: Any) -> list[Any]:
    parts = result if isinstance(result, tuple | list) else (result,)
    return [part for part in parts if isinstance(part, Variable) and is_floating(part._array.dtype)]


def _differentiable(result: Any) -> list[Any]:
    return [part for part in _tensors(result) if part._requires_grad]


def _host(tensor: Any) -> Any:
    """The values as a NumPy array."""
    if tensor._storage.device is CPU:
        return tensor._array
    return copy_array_to(tensor._array, CPU, "temporary")[0]


def _reals(array: Any) -> Any:
    """All elements in order, complex ones as two reals each."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _wrap(array: Any, like: Any) -> Any:
    return Variable._tensor_class._wrap(*copy_array_to(array, like._storage.device, "temporary"))


def _like(reals: Any, tensor: Any) -> Any:
    """Reals as a tensor of the shape, dtype and device of another."""
    array = tensor._array
    if array.dtype.kind == "c":
        pairs = np.asarray(reals, np.float64).view(np.complex128)
        return _wrap(pairs.astype(array.dtype).reshape(array.shape), tensor)
    return _wrap(np.asarray(reals).astype(array.dtype).reshape(array.shape), tensor)


def _as_leaf(reals: Any, tensor: Any) -> Any:
    leaf = _like(reals, tensor)
    leaf._requires_grad = True
    return leaf


def _random(rng: np.random.Generator, tensor: Any) -> Any:
    return rng.standard_normal(_reals(_host(tensor)).size)


def _write(tensor: Any, reals: Any) -> None:
    """Give a tensor other values, in place (NOTE [ How gradients are checked ], rule 2)."""
    tensor._array[...] = _like(reals, tensor)._array
