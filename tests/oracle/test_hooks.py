"""Hooks in the order, with the arguments and the refusals that PyTorch's have."""

from __future__ import annotations

import pytest
import torch

import stowgrad

BOTH = [torch, stowgrad]


def plain(value):
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return value.tolist()


def leaf(lib, *values):
    return lib.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def accumulator(x):
    return x.view(-1).grad_fn.next_functions[0][0]


def watch(log, name, tensor, node, retained=()):
    """Every hook that a tensor and its node can have, twice, in an order that is not theirs."""
    for number in range(2):
        node.register_hook(lambda grads, given, n=number: log.append((name, "post", n, plain(grads), plain(given))))
        if tensor.is_leaf:
            tensor.register_post_accumulate_grad_hook(
                lambda t, n=number: log.append((name, "accumulated", n, plain(t.grad)))
            )
        node.register_prehook(
            lambda given, n=number: log.append((name, "pre", n, plain(given), [plain(t.grad) for t in retained]))
        )
        tensor.register_hook(lambda g, n=number: log.append((name, "tensor", n, plain(g))))


def program(lib, run, several=True):
    log = []
    x, w = leaf(lib), leaf(lib, 3.0, 4.0)
    h = x * w
    y = h.exp() + w
    h.retain_grad()
    nodes = [accumulator(x), accumulator(w)]
    watch(log, "x", x, nodes[0])
    watch(log, "w", w, nodes[1])
    watch(log, "h", h, h.grad_fn, [h])
    watch(log, "y", y, y.grad_fn)
    if several:
        lib.autograd.graph.register_multi_grad_hook([x, h, w], lambda grads: log.append(("all", plain(grads))))
    lib.autograd.graph.register_multi_grad_hook([w, x], lambda g: log.append(("any", plain(g))), mode="any")
    run(lib, y, h, x, w)
    log.append(("end", plain(x.grad), plain(w.grad), plain(h.grad)))
    return log


def rounded(value):
    if isinstance(value, (tuple, list)):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


RUNS = {
    "backward": lambda lib, y, h, x, w: y.sum().backward(),
    "backward to x": lambda lib, y, h, x, w: y.sum().backward(inputs=[x]),
    "backward to h": lambda lib, y, h, x, w: y.sum().backward(inputs=[h]),
    "backward to h and w": lambda lib, y, h, x, w: y.sum().backward(inputs=[h, w]),
    "grad of x": lambda lib, y, h, x, w: lib.autograd.grad(y.sum(), x),
    "grad of h": lambda lib, y, h, x, w: lib.autograd.grad(y.sum(), h),
    "grad of all": lambda lib, y, h, x, w: lib.autograd.grad(y.sum(), [w, h, x]),
    "twice": lambda lib, y, h, x, w: [y.sum().backward(retain_graph=True) for _ in range(2)],
    "from h": lambda lib, y, h, x, w: h.sum().backward(),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_calls(name):  # spec 7.14 7.23 7.24 7.25 7.30
    several = name not in ("grad of x", "grad of all")  # PyTorch refuses leaves there
    theirs, ours = (rounded(program(lib, RUNS[name], several)) for lib in BOTH)
    assert ours == theirs


def outcome(lib, register, hook, make=lambda lib: leaf(lib).exp()):
    h = make(lib)
    target = h if register == "tensor" else h.grad_fn
    name = {"tensor": "register_hook", "pre": "register_prehook", "post": "register_hook"}[register]
    getattr(target, name)(lambda *given: hook(lib, *given))
    try:
        h.sum().backward()
    except Exception as error:  # noqa: BLE001
        return type(error)
    return "fine"


HOOKS = {
    "tensor: number": ("tensor", lambda lib, g: 1.0),
    "tensor: size": ("tensor", lambda lib, g: lib.ones(3)),
    "tensor: broadcastable": ("tensor", lambda lib, g: lib.ones(1, 2)),
    "tensor: dtype": ("tensor", lambda lib, g: g.to(lib.float64)),
    "tensor: None": ("tensor", lambda lib, g: None),
    "pre: None": ("pre", lambda lib, given: None),
    "pre: tuple": ("pre", lambda lib, given: (given[0] * 2,)),
    "pre: two": ("pre", lambda lib, given: given * 2),
    "pre: number": ("pre", lambda lib, given: (1.0,)),
    "pre: size": ("pre", lambda lib, given: (lib.ones(3),)),
    "post: None": ("post", lambda lib, grads, given: None),
    "post: tuple": ("post", lambda lib, grads, given: (grads[0] * 2,)),
    "post: empty": ("post", lambda lib, grads, given: ()),
    "post: number": ("post", lambda lib, grads, given: (1.0,)),
    "post: size": ("post", lambda lib, grads, given: (lib.ones(3),)),
    "post: dtype": ("post", lambda lib, grads, given: (grads[0].to(lib.float64),)),
}


@pytest.mark.parametrize(("register", "hook"), HOOKS.values(), ids=HOOKS.keys())
def test_the_same_refusals(register, hook):  # spec 7.26
    theirs, ours = (outcome(lib, register, hook) for lib in BOTH)
    assert ours == theirs


def test_none_among_the_results():  # spec 7.26
    def run(lib, hook):
        return outcome(lib, "post", hook, lambda lib: leaf(lib) * lib.ones(2))

    for hook in (lambda lib, grads, given: (grads[0], grads[0]), lambda lib, grads, given: (None, None)):
        assert run(stowgrad, hook) == run(torch, hook)


def test_hooks_of_what_did_not_arrive():  # spec 7.23
    def run(lib):
        log = []

        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                return None

        x = leaf(lib)
        node = accumulator(x)
        x.register_hook(lambda g: log.append(("leaf", plain(g))))
        node.register_prehook(lambda given: log.append(("pre", plain(given))))
        node.register_hook(lambda grads, given: log.append(("post", plain(grads), plain(given))))
        x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
        inner = x * 1
        inner.register_hook(lambda g: log.append(("inner", plain(g))))
        a, b = Two.apply(inner)
        b.register_hook(lambda g: log.append(("b", plain(g))))
        a.grad_fn.register_prehook(lambda given: log.append(("two", plain(given))))
        a.grad_fn.register_hook(lambda grads, given: log.append(("two ran", plain(grads), plain(given))))
        a.sum().backward()
        return log

    assert run(stowgrad) == run(torch)


def test_batched_gradients():  # spec 7.8
    def run(lib):
        x, w = leaf(lib), leaf(lib, 3.0, 4.0)
        rows = lib.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
        return plain(lib.autograd.grad((x * w).exp(), [x, w], rows, is_grads_batched=True))

    assert rounded(run(stowgrad)) == rounded(run(torch))
