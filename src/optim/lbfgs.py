"""L-BFGS (Liu and Nocedal, 1989)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.functions import view_as_real
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.tensor import Tensor
from ..memory import events
from .line_search import Point, strong_wolfe
from .optimizer import Group, Optimizer, Params, check_ranges
from .state import Form, leased

_LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """Newton's method with curvatures from the last gradients, like ``torch.optim.LBFGS``.

    Args:
        params: what is optimized, in one group; all on one device.
        lr: the length of a step without line search, and the first one tried with it.
        max_iter: the most iterations in one ``step``.
        max_eval: the most evaluations in one ``step``; 1.25 times the iterations by default.
        tolerance_grad: the largest element of a gradient that is as good as zero.
        tolerance_change: the change of parameters or of the loss at which it stops.
        history_size: how many pairs of changes are kept: each is twice as large as all parameters together.
        line_search_fn: None or ``"strong_wolfe"``.

    Raises:
        ValueError: for a setting that is out of range, and several groups.

    ``step`` takes a closure that clears the gradients, computes the loss, calls ``backward`` and returns the loss.

    >>> import stowgrad
    >>> x = stowgrad.nn.Parameter(stowgrad.tensor([3.0, -1.0]))
    >>> optimizer = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - stowgrad.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> first = optimizer.step(closure)
    >>> x.detach()
    tensor([1.0000, 2.0000])
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr")

    def state_form(self, name: str, param: Tensor) -> Form:
        return Form(None, None, param.device)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Go on until something of the settings says to stop.

        Returns:
            What ``closure`` returned first.

        Raises:
            TypeError: without a closure.
            RuntimeError: for an unknown line search.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        run = _Run(group, self.state[group["params"][0]], closure)
        with events.span("phase", "optimizer", self), no_grad():
            return run.all()


class _Run:
    """One ``step``: its evaluations, and the state that it takes over and leaves."""

    def __init__(self, group: Group, state: dict[str, Any], closure: Callable[[], Any]) -> None:
        self._group = group
        self._state = state
        self._closure = closure
        self._params: list[Tensor] = group["params"]
        self._evaluations = 0
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

    # -- the parameters as one vector ----------------------------------------------------------------------------------

    def _evaluated(self) -> tuple[Any, Tensor]:
        """What the closure returns, and all gradients in one vector."""
        with enable_grad():
            loss = self._closure()
        self._evaluations += 1
        self._state["func_evals"] += 1
        flat = self._new_vector()
        offset = 0
        for param in self._params:
            part = flat[offset : offset + param.numel() * (1 + param.is_complex())]
            if param.grad is None:
                part.zero_()
            else:
                gradient = param.grad.detach()
                part.copy_((view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1))
            offset += part.numel()
        return loss, flat

    def _new_vector(self) -> Tensor:
        size = sum(param.numel() * (1 + param.is_complex()) for param in self._params)
        first = self._params[0]
        dtype = np.zeros(0, first.dtype).real.dtype if first.is_complex() else first.dtype
        return leased((size,), dtype, first.device)

    def _copy(self, vector: Tensor) -> Tensor:
        copied = self._new_vector()
        copied.copy_(vector)
        return copied

    def _move(self, t: float, direction: Tensor) -> None:
        offset = 0
        for param in self._params:
            values = view_as_real(param.detach()) if param.is_complex() else param.detach()
            part = direction[offset : offset + values.numel()]
            values.add_(part.reshape(tuple(values.shape)), alpha=t)
            offset += values.numel()

    # -- the method ----------------------------------------------------------------------------------------------------

    def all(self) -> Any:
        """Iterate, and return what the closure returned first."""
        state, group = self._state, self._group
        first, gradient = self._evaluated()
        loss = float(first)
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for number in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(gradient)
            before = loss
            state["prev_flat_grad"], state["prev_loss"] = self._copy(gradient), loss
            lr = float(group["lr"])
            t = state["t"] = lr if state["n_iter"] > 1 else min(1.0, 1.0 / float(gradient.abs().sum())) * lr
            slope = float(gradient.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                start = Point(0.0, loss, gradient, slope)
                found = self._searched(t, direction, start)
                t, loss, gradient = found.t, found.value, found.gradient
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                if number < group["max_iter"]:  # a stochastic loss would be another one in the next step
                    returned, gradient = self._evaluated()
                    loss = float(returned)
            if (
                self._evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or abs(t) * _largest(direction) <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _searched(self, t: float, direction: Tensor, start: Point) -> Point:
        kept = [param.detach().clone() for param in self._params]

        def evaluate(t: float) -> Point:
            self._move(t, direction)
            returned, gradient = self._evaluated()
            for param, values in zip(self._params, kept, strict=True):
                param.detach().copy_(values)
            return Point(t, float(returned), gradient, float(gradient.dot(direction)))

        tolerance, most = self._group["tolerance_change"], self._group["max_eval"] - self._evaluations
        return strong_wolfe(evaluate, t, start, _largest(direction), tolerance, most)[0]

    def _direction(self, gradient: Tensor) -> Tensor:
        """Minus the gradient, times the inverse curvature as far as it is known."""
        state = self._state
        if state["n_iter"] == 1:
            direction = self._copy(gradient)
            direction.neg_()
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0, d=direction)
            return direction
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = self._copy(gradient), self._copy(state["d"])
        change.sub_(state["prev_flat_grad"])
        step.mul_(float(state["t"]))
        curvature = float(change.dot(step))
        if curvature > _LEAST_CURVATURE:
            if len(changes) == self._group["history_size"]:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / float(change.dot(change))
        direction = self._copy(gradient)
        direction.neg_()
        shares = [0.0] * len(changes)
        for i in reversed(range(len(changes))):
            shares[i] = float(steps[i].dot(direction)) * float(inverses[i])
            direction.add_(changes[i], alpha=-shares[i])
        direction.mul_(float(state["H_diag"]))
        for i, share in enumerate(shares):
            back = float(changes[i].dot(direction)) * float(inverses[i])
            direction.add_(steps[i], alpha=share - back)
        state["d"] = direction
        return direction


def _largest(vector: Tensor) -> float:
    return float(vector.abs().amax()) if vector.numel() else 0.0
