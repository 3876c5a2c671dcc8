"""`Optimizer`: parameters in groups, a state for each, and a step that is done for all or fails before the first.

NOTE [ A step ]
1. Everything that stays in memory is leased before the first parameter changes: a limit that has no room for the state
   leaves parameters and state as they were.
2. The update of a parameter is one fused kernel, tile by tile; besides the state it needs a few tiles of scratch.
3. Whoever writes a parameter bumps its storage's version, so that a graph that saved the old value notices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.tensor import Tensor
from ..kernels import backend
from ..memory import events
from ..saved_tensors.mutation import before_write
from .state import (
    MASTER,
    STEP,
    Form,
    needs_master,
    new_master,
    packed_groups,
    packed_state,
    real_values,
    unpacked_groups,
    unpacked_state,
)
from .step_hooks import Hooked

Group: TypeAlias = dict[str, Any]
Params: TypeAlias = Iterable[Tensor] | Iterable[Group]


class Optimizer(Hooked):
    """Base class of optimizers, like ``torch.optim.Optimizer``.

    Args:
        params: the tensors to optimize, or pairs of a name and a tensor such as ``named_parameters()`` gives, or dicts
            with such ``"params"`` and settings of their own. Names are kept in the groups, as ``"param_names"``.
        defaults: settings for groups that don't bring them.

    Attributes:
        param_groups: the groups: dicts with ``"params"`` and the settings, which may be changed between steps.
        state: what is kept for each parameter.

    Raises:
        TypeError: for anything that is no tensor, or an unordered collection.
        ValueError: for no parameters at all, one that is given twice, one that is not a leaf, or names for some only.

    A subclass defines `check_group`, `initial_state` and `update`; or it overrides `step`.

    The classes here take PyTorch's ``foreach``, ``fused`` and ``capturable`` too, and keep them in the groups, but they
    choose nothing: every update is one fused kernel. ``differentiable=True`` is refused.
    """

    # Values of a state that are one number for the whole parameter: float32 on the CPU, whatever the parameter is.
    scalars: frozenset[str] = frozenset({STEP})

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        super().__init__()
        self.defaults = dict(defaults)
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups: list[Any] = _listed(params, "params argument given to the optimizer")
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Optimize more tensors, with settings of their own where the dict has them.

        Raises:
            TypeError, ValueError: as for the class; no group is added then.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, got {type(param_group).__name__}")
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else _listed(params, "optimizer parameters")
        params, names = _without_names(params)
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not param.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        if len(set(params)) < len(params):
            raise ValueError("optimizer got a parameter group with duplicate parameters")
        if not set(params).isdisjoint(chain.from_iterable(group["params"] for group in self.param_groups)):
            raise ValueError("some parameters appear in more than one parameter group")
        group = {"params": params, **{name: value for name, value in param_group.items() if name != "params"}}
        if names:
            group["param_names"] = names
        if any(("param_names" in group) != ("param_names" in other) for other in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group"
                f" {'with' if names else 'without'} names to the optimizer"
            )
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self._check(group)
        self.param_groups.append(group)

    def _check(self, group: Group) -> None:
        if isinstance(group.get("lr"), Tensor) and group["lr"].numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        self.check_group(group)

    # -- what a subclass defines ---------------------------------------------------------------------------------------

    def check_group(self, group: Group) -> None:
        """Look at a group's settings.

        Raises:
            ValueError: for one that is out of range.
        """

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        """The state of a parameter before its first update; empty if it has none."""
        return {}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        """Change one parameter: call a kernel.

        Args:
            kernels: those of the parameter's device.
            param, grad: arrays; of complex numbers as pairs of real ones.
            group: the settings.
            state: arrays, where the parameter's state has tensors. New numbers go into these.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither update() nor step()")

    def arrays(self, param: Tensor, state: dict[str, Any]) -> dict[str, Any]:
        """What `update` is given as the state of a parameter."""
        return {name: real_values(value) if isinstance(value, Tensor) else value for name, value in state.items()}

    def state_form(self, name: str, param: Tensor) -> Form:
        """Shape, dtype and device of a tensor in a parameter's state; None for a shape or dtype that may be any."""
        if name in self.scalars:
            return Form.number()
        return Form(tuple(param.shape), param.dtype, param.device)

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss and its gradients anew; called before the update.

        Returns:
            What ``closure`` returned, or None.

        Raises:
            MemoryBudgetError: if there is no room for the state; nothing has changed then.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with events.span("phase", "optimizer", self), no_grad():
            work = [
                (param, param.grad, group)
                for group in self.param_groups
                for param in group["params"]
                if param.grad is not None
            ]
            self._prepare(work)
            for param, _, _ in work:
                before_write(param._storage)
            for param, grad, group in work:
                self._update(param, grad, group)
        return loss

    def _update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        """Update one parameter, whose state is there."""
        state = self.state.get(param)
        if state and MASTER in state:
            self._update_master(param, grad, group, state)
        else:
            arrays = self.arrays(param, state) if state else {}
            self.update(backend(param.device.type), real_values(param), real_values(grad), group, arrays)
        param._storage.version += 1
        for written in state.values() if state else ():
            if isinstance(written, Tensor):
                written._storage.version += 1

    def _update_master(self, param: Tensor, grad: Tensor, group: Group, state: dict[str, Any]) -> None:
        """Update a parameter's float32 copy, and give the parameter its rounded values."""
        master = state[MASTER]
        arrays = self.arrays(master, {name: value for name, value in state.items() if name != MASTER})
        wide = grad.to(master.dtype)
        self.update(backend(param.device.type), real_values(master), real_values(wide), group, arrays)
        param.copy_(master)

    def _prepare(self, work: list[tuple[Tensor, Tensor, Group]]) -> None:
        """Make the states that are missing, all or none (NOTE [ A step ], rule 1)."""
        made = {}
        for param, _, group in work:
            if not self.state.get(param):
                state = self._new_state(param, group)
                if state:
                    made[param] = state
        self.state.update(made)

    def _new_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        if not needs_master(param, group):
            return self.initial_state(param, group)
        master = new_master(param)
        return {**self.initial_state(master, group), MASTER: master}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    with no_grad():
                        param.grad.detach().zero_()

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and settings in PyTorch's form: parameters are numbers, in the order of the groups.

        The tensors in it are those of the optimizer, not copies.
        """
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self)
        numbers = {param: number for number, param in enumerate(self._all_params())}
        result: dict[str, Any] = {
            "state": packed_state(self.state, numbers),
            "param_groups": packed_groups(self.param_groups, numbers),
        }
        for hook in tuple(self._state_dict_post_hooks.values()):
            returned = hook(self, result)
            result = result if returned is None else returned
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any], *, copy: bool = True) -> None:
        """Take over state and settings.

        Args:
            state_dict: as from `state_dict`, of an optimizer over parameters of the same shapes in the same order.
            copy: False to keep the tensors themselves where dtype and device allow it, and so save their memory; nobody
                else may write them then.

        Raises:
            KeyError: if ``state_dict`` lacks ``"state"`` or ``"param_groups"``.
            ValueError: if it doesn't fit these parameters, or a setting is out of range; nothing was changed then.
        """
        state_dict = dict(state_dict)
        for hook in tuple(self._load_pre_hooks.values()):
            returned = hook(self, state_dict)
            state_dict = state_dict if returned is None else returned
        groups = unpacked_groups(state_dict["param_groups"], self.param_groups, self.defaults)
        for group in groups:
            self._check(group)
        numbered = dict(enumerate(self._all_params()))
        saved_numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        renumbered = dict(zip(saved_numbers, numbered.values(), strict=True))
        mastered = {param for group in groups for param in group["params"] if needs_master(param, group)}

        def form(name: str, param: Tensor) -> Form:
            if param not in mastered:
                return self.state_form(name, param)
            return self.state_form(name, param).of_master(name, param)

        state = unpacked_state(state_dict["state"], renumbered, copy, form)
        self.param_groups = groups
        self.state = defaultdict(dict, state)
        for hook in tuple(self._load_post_hooks.values()):
            hook(self)

    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _listed(params: Any, what: str) -> list[Any]:
    if isinstance(params, Tensor):
        raise TypeError(f"{what} should be an iterable of Tensors or dicts, but got {type(params).__name__}")
    if isinstance(params, set | frozenset):
        raise TypeError(f"{what} must come in an order that is the same in every run; got a set")
    return list(params)


def _without_names(params: list[Any]) -> tuple[list[Any], list[str]]:
    """Parameters and their names, if they have any.

    Raises:
        ValueError: if only some have.
    """
    names = [param[0] for param in params if isinstance(param, tuple)]
    if names and len(names) < len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [param[1] if isinstance(param, tuple) else param for param in params], names


def hints(differentiable: bool = False, **chosen: Any) -> dict[str, Any]:
    """PyTorch's choices of an implementation, as settings.

    Raises:
        NotImplementedError: for ``differentiable=True``.
        RuntimeError: for both of ``foreach`` and ``fused``.
    """
    if differentiable:
        raise NotImplementedError("differentiable=True: an update is one kernel, which autograd does not record")
    if chosen.get("foreach") and chosen.get("fused"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    return {**chosen, "differentiable": False}


def check_ranges(group: Group, *names: str) -> None:
    """See that settings are not negative, and a pair of betas from 0 up to, but not, 1.

    Raises:
        ValueError: for one that is.
    """
    for name in names:
        if name == "betas":
            if len(group["betas"]) != 2:
                raise ValueError(f"betas must be a pair, got {group['betas']}")
            for index, beta in enumerate(group["betas"]):
                if not 0.0 <= beta < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        elif not group[name] >= 0.0:
            raise ValueError(f"Invalid {_NAMES.get(name, name + ' value')}: {group[name]}")


_NAMES = {"lr": "learning rate", "eps": "epsilon value"}
