"""Hooks of modules beside PyTorch's: who is called when, with what, and what may be replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")

LIBRARIES = (stowgrad, torch)
VALUES = np.random.default_rng(0).standard_normal((3, 4))


def shown(value: Any) -> Any:
    """A value with its tensors as lists, so that it can be compared."""
    if isinstance(value, tuple | list):
        return tuple(shown(part) for part in value)
    if hasattr(value, "detach"):
        return np.round(value.detach().numpy(), 10).tolist()
    return value


def both(run: Callable[[Any], Any]) -> tuple[Any, Any]:
    return tuple(shown(run(lib)) for lib in LIBRARIES)  # type: ignore[return-value]


def layer(lib: Any) -> Any:
    made = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.Tanh()).double()
    with lib.no_grad():
        for number, parameter in enumerate(made.parameters(), 1):
            parameter.copy_(lib.arange(parameter.numel()).reshape(parameter.shape).double() / (10 * number))
    return made


def input_of(lib: Any, requires_grad: bool = True) -> Any:
    return lib.tensor(VALUES, requires_grad=requires_grad)


def gradients(x: Any, made: Any) -> list[Any]:
    return [None if t.grad is None else t.grad for t in (x, *made.parameters())]


def test_full_backward_hooks_see_and_replace_gradients():
    def run(lib: Any) -> Any:
        made, x, seen = layer(lib), input_of(lib), []
        made.register_full_backward_pre_hook(lambda m, out: seen.append(("pre", out)) or (out[0] * 2,))
        made.register_full_backward_hook(lambda m, inputs, out: seen.append(("last", inputs, out)))
        made.register_full_backward_hook(
            lambda m, inputs, out: seen.append(("first", inputs, out)) or (inputs[0] * 10,), prepend=True
        )
        handle = made[0].register_full_backward_hook(lambda m, inputs, out: seen.append(("inner", inputs, out)))
        made(x).sum().backward()
        handle.remove()
        made(x).sum().backward()
        return seen, gradients(x, made)

    ours, theirs = both(run)
    assert ours == theirs
    assert [entry[0] for entry in ours[0]] == ["pre", "inner", "first", "last", "pre", "first", "last"]


def test_without_gradients_of_inputs_hooks_see_those_of_the_outputs():
    def run(lib: Any) -> Any:
        made, x, seen = layer(lib), input_of(lib, False), []
        made.register_full_backward_hook(lambda m, inputs, out: seen.append((inputs, out)))
        made(x).sum().backward()
        with lib.no_grad():
            made(x)
        return seen, gradients(x, made)

    ours, theirs = both(run)
    assert ours == theirs
    assert ours[0][0][0] == (None,)


def test_several_inputs_and_outputs():
    def run(lib: Any) -> Any:
        class Two(lib.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any, factor: float, y: Any) -> Any:
                return x * factor, "text", x * y

        made, seen = Two(), []
        x, y = input_of(lib), input_of(lib, False)
        made.register_full_backward_pre_hook(lambda m, out: seen.append(out))
        # PyTorch gives zeros for y, which needs no gradient
        made.register_full_backward_hook(lambda m, inputs, out: seen.append((inputs[:2], len(inputs), out)))
        first, _, _ = made(x, 2.0, y)
        first.sum().backward()
        return seen, x.grad

    ours, theirs = both(run)
    assert ours == theirs


@pytest.mark.parametrize("inputs_need_gradients", [True, False])
def test_what_a_backward_hook_must_not_return(inputs_need_gradients: bool):
    for lib in LIBRARIES:
        made, x = layer(lib), input_of(lib, inputs_need_gradients)
        made.register_full_backward_hook(lambda m, inputs, out: (out[0], out[0]))
        with pytest.raises(RuntimeError, match=r"invalid number of grad_input|should always return None"):
            made(x).sum().backward()
        made = layer(lib)
        made.register_full_backward_pre_hook(lambda m, out: (out[0], out[0]))
        with pytest.raises(RuntimeError, match="invalid number of grad_output"):
            made(x).sum().backward()


def test_second_gradients_go_through_backward_hooks():
    def run(lib: Any) -> Any:
        made, x, seen = layer(lib), input_of(lib), []
        made.register_full_backward_hook(lambda m, inputs, out: seen.append(inputs))
        (gradient,) = lib.autograd.grad(made(x).pow(2).sum(), x, create_graph=True)
        gradient.pow(2).sum().backward()
        return seen, gradients(x, made)

    ours, theirs = both(run)
    assert ours[1] == theirs[1]
    assert len(ours[0]) == len(theirs[0])


def test_watched_tensors_are_not_changed_in_place():
    for lib in LIBRARIES:
        made = layer(lib)
        made.register_full_backward_hook(lambda m, inputs, out: None)
        with pytest.raises(RuntimeError, match=r"in-?place"):
            made(input_of(lib)).add_(1)


def test_forward_hooks_that_are_always_called():
    def run(lib: Any) -> Any:
        class Fails(lib.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any, *, fail: bool) -> Any:
                if fail:
                    raise ValueError("no")
                return x

        made, seen = Fails(), []
        made.register_forward_hook(lambda m, args, out: seen.append(("plain", out)))
        made.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
        made.register_forward_hook(
            lambda m, args, kwargs, out: seen.append((kwargs["fail"], out)), with_kwargs=True, always_call=True
        )
        x = input_of(lib)
        made(x, fail=False)
        with pytest.raises(ValueError, match="no"):
            made(x, fail=True)
        return seen

    ours, theirs = both(run)
    assert ours == theirs
    assert [entry[0] for entry in ours] == ["plain", "always", False, "always", True]


def test_an_error_in_such_a_hook_gives_way_to_the_first():
    def wrong(module: Any, args: Any, out: Any) -> None:
        raise KeyError("second")

    for lib in LIBRARIES:
        made = lib.nn.Linear(2, 2)
        made.register_forward_hook(wrong, always_call=True)
        with pytest.warns(UserWarning, match="silenced"), pytest.raises(RuntimeError):
            made(lib.ones(3))


def test_state_hooks():
    def run(lib: Any) -> Any:
        made, seen = layer(lib), []
        made.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
        made[0].register_state_dict_post_hook(lambda m, state, *rest: state.update(extra=state.pop("net.0.bias")))
        made.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
        made[0].register_load_state_dict_pre_hook(
            lambda m, state, prefix, *rest: state.__setitem__(f"{prefix}weight", state.pop(f"{prefix}old"))
        )
        state = made.state_dict(prefix="net.")
        values = {"0.old": state["net.0.weight"] * 2}
        keys = made.load_state_dict(values, strict=False)
        return list(state), seen, tuple(keys.missing_keys), made[0].weight, state._metadata["net"]["version"]

    ours, theirs = both(run)
    assert ours == theirs


def test_extra_state():
    def run(lib: Any) -> Any:
        class Counts(lib.nn.Module):  # type: ignore[misc, name-defined]
            count = 0

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        one, two = lib.nn.ModuleList([Counts()]), lib.nn.ModuleList([Counts()])
        one[0].count = 3
        two.load_state_dict(one.state_dict())
        texts = []
        for made, state in ((lib.nn.ModuleList([Counts()]), {}), (lib.nn.ModuleList([]), one.state_dict())):
            with pytest.raises(RuntimeError) as error:
                made.load_state_dict(state)
            texts.append("0._extra_state" in str(error.value))
        return list(one.state_dict()), two[0].count, texts

    ours, theirs = both(run)
    assert ours == theirs == (("0._extra_state",), 3, (True, True))
