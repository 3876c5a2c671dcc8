"""Errors that leave public functions hold no tensors, and entries are the functions that they stand before."""

from __future__ import annotations

import functools
import inspect
import pickle
import traceback

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.autograd.entries import is_entry, leaves_no_tensors
from stowgrad.autograd.frames import clear_own_frames
from stowgrad.memory import MemoryBudgetError, get_limit, pool, set_limit
from stowgrad.nn import functional as F

PACKAGE = stowgrad.__file__.removesuffix("__init__.py")
NAMESPACES = (
    *(stowgrad, stowgrad.autograd, stowgrad.checkpoint, stowgrad.fft, stowgrad.func, stowgrad.linalg, stowgrad.masked),
    *(stowgrad.special, stowgrad.utils, nn.functional, nn.init, nn.utils, nn.utils.rnn),
)


def kept_error(call, *args):
    """What a call raises, kept with its frames, as a program would."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001  # whatever it is
        del call, args  # this frame is the user's: what it holds is not the library's to drop
        return error
    raise AssertionError("it did not fail")


def own_frames(error):
    found, link = [], error.__traceback__
    while link is not None:
        if link.tb_frame.f_code.co_filename.startswith(PACKAGE):
            found.append(link.tb_frame)
        link = link.tb_next
    return found


def holds_a_tensor(value):
    if isinstance(value, (list, tuple, set)):
        return any(map(holds_a_tensor, value))
    if isinstance(value, dict):
        return any(map(holds_a_tensor, value.values()))
    if isinstance(value, (stowgrad.Tensor, np.ndarray, nn.Module, stowgrad.optim.Optimizer)):
        return True
    return type(value).__name__ in ("Node", "Storage")


def holders(error):
    """Variables of the package's frames in a traceback that hold tensors, or what has some."""
    frames = own_frames(error)
    assert frames
    return [
        f"{frame.f_code.co_name}: {name}"
        for frame in frames
        for name, value in frame.f_locals.items()
        if holds_a_tensor(value)
    ]


# -- calls that fail, with temporary tensors ---------------------------------------------------------------------------

# Each is called with a tensor (3, 4) that requires grad, one (5, 6), and a target of (3,) classes.
CALLS = {
    "add": lambda x, y, t: x * 2 + y * 2,
    "sub, function": lambda x, y, t: stowgrad.sub(x * 2, y * 2),
    "mul, alias": lambda x, y, t: stowgrad.multiply(x * 2, other=y * 2),
    "div, reversed": lambda x, y, t: y.numpy() / (x.detach() * 2),
    "power": lambda x, y, t: (x * 2) ** (y * 2),
    "compare": lambda x, y, t: x * 2 < y * 2,
    "invert": lambda x, y, t: ~(x * 2),
    "where": lambda x, y, t: stowgrad.where(x > 0, x * 2, y * 2),
    "clamp": lambda x, y, t: (x * 2).clamp(),
    "lerp": lambda x, y, t: (x * 2).lerp(y * 2, 0.5),
    "no number": lambda x, y, t: stowgrad.exp([x * 2]),
    "matmul": lambda x, y, t: (x * 2) @ (y * 2),
    "mm": lambda x, y, t: (x * 2).mm(y * 2),
    "bmm": lambda x, y, t: stowgrad.bmm(x * 2, y * 2),
    "addmm": lambda x, y, t: stowgrad.addmm(x * 2, y * 2, x * 3),
    "einsum": lambda x, y, t: stowgrad.einsum("ij,jk->ik", x * 2, y * 2),
    "sum": lambda x, y, t: (x * 2).sum(7),
    "sum, axis": lambda x, y, t: (x * 2).sum(axis=7),
    "sum, both names": lambda x, y, t: stowgrad.sum(x * 2, dim=0, axis=0),
    "mean": lambda x, y, t: stowgrad.mean((x * 2).to(stowgrad.int64)),
    "max": lambda x, y, t: (x * 2).max(7),
    "softmax": lambda x, y, t: (x * 2).softmax(8),
    "cumsum": lambda x, y, t: (x * 2).cumsum(9),
    "sort": lambda x, y, t: (x * 2).sort(9),
    "topk": lambda x, y, t: (x * 2).topk(99),
    "quantile": lambda x, y, t: (x * 2).quantile(7.0),
    "view": lambda x, y, t: (x * 2).view(7),
    "view, keyword": lambda x, y, t: (x * 2).view(size=(7,)),
    "reshape": lambda x, y, t: stowgrad.reshape(x * 2, (7,)),
    "permute": lambda x, y, t: (x * 2).permute(0, 0),
    "expand": lambda x, y, t: (x * 2).expand(9, 9),
    "transpose": lambda x, y, t: (x * 2).transpose(0, 9),
    "property": lambda x, y, t: (x * 2).sum(0).mT,
    "imaginary part": lambda x, y, t: (x * 2).imag,
    "size": lambda x, y, t: (x * 2).size(9),
    "unbind": lambda x, y, t: (x * 2).unbind(9),
    "iteration": lambda x, y, t: iter((x * 2).sum()),
    "length": lambda x, y, t: len((x * 2).sum()),
    "truth": lambda x, y, t: bool(x * 2),
    "item": lambda x, y, t: (x * 2).item(),
    "to numpy": lambda x, y, t: (x * 2).numpy(),
    "as an array": lambda x, y, t: np.asarray(x * 2),
    "ufunc": lambda x, y, t: np.add(x * 2, y * 2),
    "NumPy's function": lambda x, y, t: np.concatenate([x * 2, y * 2]),
    "to a dtype": lambda x, y, t: (x * 2).to("nothing"),
    "index": lambda x, y, t: (x * 2)[9],
    "index by a mask": lambda x, y, t: (x * 2)[y > 0],
    "gather": lambda x, y, t: (x * 2).gather(0, (y * 2).long()),
    "set item": lambda x, y, t: (x * 2).__setitem__(9, 1),
    "set item, value": lambda x, y, t: (x * 2).__setitem__(0, y * 2),
    "in place": lambda x, y, t: (x * 2).add_(y * 2),
    "in place, operator": lambda x, y, t: (x * 2).__imul__(y * 2),
    "in place, leaf": lambda x, y, t: x.mul_(x.detach() * 2),
    "in place, function": lambda x, y, t: stowgrad.exp_((x * 2).expand(2, 3, 4)),
    "copy_": lambda x, y, t: (x * 2).copy_(y * 2),
    "masked_fill_": lambda x, y, t: (x * 2).masked_fill_(y > 0, 1.0),
    "out": lambda x, y, t: stowgrad.add(x * 2, x * 3, out=x * 4),
    "cat": lambda x, y, t: stowgrad.cat([x * 2, y * 2]),
    "stack": lambda x, y, t: stowgrad.stack((x * 2, y * 2)),
    "meshgrid": lambda x, y, t: stowgrad.meshgrid(x * 2, y * 2),
    "block_diag": lambda x, y, t: stowgrad.block_diag(x * 2, (y * 2)[None]),
    "broadcast_tensors": lambda x, y, t: stowgrad.broadcast_tensors(x * 2, y * 2),
    "cartesian_prod": lambda x, y, t: stowgrad.cartesian_prod(x * 2, y * 2),
    "tensordot": lambda x, y, t: stowgrad.tensordot(x * 2, y * 2, 1),
    "multi_dot": lambda x, y, t: stowgrad.linalg.multi_dot([x * 2, y * 2, x * 3]),
    "vsplit": lambda x, y, t: (x * 2).vsplit(2),
    "split": lambda x, y, t: (x * 2).split([1, 1]),
    "pad": lambda x, y, t: F.pad(x * 2, (1,)),
    "from a list": lambda x, y, t: stowgrad.tensor([x * 2, y * 2]),
    "from sizes": lambda x, y, t: (x * 2).new_zeros(-1),
    "linear": lambda x, y, t: F.linear(x * 2, y * 2),
    "conv2d": lambda x, y, t: F.conv2d(x * 2, y * 2),
    "pooling": lambda x, y, t: F.max_pool2d(x * 2, 9),
    "interpolate": lambda x, y, t: F.interpolate(x * 2, 3),
    "embedding": lambda x, y, t: F.embedding(t + 9, x * 2),
    "dropout": lambda x, y, t: F.dropout(x * 2, 7.0),
    "attention": lambda x, y, t: F.scaled_dot_product_attention(x * 2, y * 2, y * 3),
    "cross-entropy": lambda x, y, t: F.cross_entropy(x * 2, t + 9),
    "mse": lambda x, y, t: F.mse_loss(x * 2, x.detach() * 3, reduction="none of these"),
    "nll": lambda x, y, t: F.nll_loss(x * 2, y * 2),
    "ctc": lambda x, y, t: F.ctc_loss(x * 2, t * 2, t, t),
    "layer norm": lambda x, y, t: F.layer_norm(x * 2, (7,)),
    "batch norm": lambda x, y, t: F.batch_norm(x * 2, (y * 2)[0], (y * 3)[0], training=True),
    "group norm": lambda x, y, t: F.group_norm(x * 2, 3),
    "norm": lambda x, y, t: stowgrad.linalg.norm(x * 2, "no norm"),
    "cholesky": lambda x, y, t: stowgrad.linalg.cholesky(x * 2),
    "solve": lambda x, y, t: stowgrad.linalg.solve((y * 2) @ (y * 2).T, x * 2),
    "singular": lambda x, y, t: stowgrad.linalg.inv((x @ x.T) * 0),
    "svd": lambda x, y, t: stowgrad.linalg.svd((x * 2)[0]),
    "fft": lambda x, y, t: stowgrad.fft.fft(x * 2, norm="no norm"),
    "rfftn": lambda x, y, t: stowgrad.fft.rfftn(x * 2, dim=(0, 9)),
    "special": lambda x, y, t: stowgrad.special.xlogy(x * 2, y * 2),
    "masked": lambda x, y, t: stowgrad.masked.sum(x * 2, mask=y > 0),
    "init": lambda x, y, t: nn.init.eye_((x * 2).detach()[0]),
    "clip": lambda x, y, t: nn.utils.clip_grad_norm_([x * 2], "no number"),
    "pad a sequence": lambda x, y, t: nn.utils.rnn.pad_sequence([x * 2, y * 2]),
    "module": lambda x, y, t: nn.Linear(7, 8)(x * 2),
    "sequence of modules": lambda x, y, t: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(7, 8))(x * 2),
    "recurrent": lambda x, y, t: nn.LSTM(7, 8)(x * 2),
    "loss module": lambda x, y, t: nn.CrossEntropyLoss()(x * 2, y * 2),
    "loss module's weights": lambda x, y, t: nn.CrossEntropyLoss(weight=x * 2, label_smoothing="no number")(x * 2, t),
    "parameter": lambda x, y, t: nn.Parameter((x * 2).long()),
    "attribute": lambda x, y, t: setattr(nn.Linear(4, 4), "weight", x * 2),
    "buffer": lambda x, y, t: nn.Module().register_buffer("a.b", x * 2),
    "load": lambda x, y, t: nn.Linear(4, 4).load_state_dict({"weight": x * 2}),
    "optimizer": lambda x, y, t: stowgrad.optim.SGD([x * 2], lr=0.1),
    "gradient": lambda x, y, t: setattr(x.detach(), "grad", y * 2),
    "requires grad": lambda x, y, t: (x * 2).long().requires_grad_(),
    "backward": lambda x, y, t: (x * 2).backward(),
    "backward, seed": lambda x, y, t: (x * 2).backward(y * 2),
    "grad": lambda x, y, t: stowgrad.autograd.grad(x * 2, y * 2),
    "node": lambda x, y, t: (x * 2).grad_fn(y * 2),
    "gradient of a function": lambda x, y, t: stowgrad.grad(lambda z: z * (x * 2))(x * 3),
    "pull back": lambda x, y, t: stowgrad.vjp(lambda z: z * 2, x * 3)[1](y * 2),
    "scaled": lambda x, y, t: stowgrad.amp.GradScaler("cpu").scale([x * 2, 7]),
    "checkpoint": lambda x, y, t: stowgrad.checkpoint.checkpoint(stowgrad.matmul, x * 2, y * 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_kept_error_keeps_no_temporary_tensor(name, no_collector):  # spec P10
    call = CALLS[name]
    x, y, t = stowgrad.rand(3, 4, requires_grad=True), stowgrad.rand(5, 6), stowgrad.arange(3)
    before = pool("cpu").used_bytes()
    error = kept_error(call, x, y, t)
    assert holders(error) == []
    assert pool("cpu").used_bytes() == before
    assert error.__traceback__ is not None


@pytest.fixture
def limit():
    before = get_limit()
    yield lambda extra: set_limit(pool("cpu").held_bytes() + extra)
    set_limit(before)


def test_a_limit_that_is_met_deep_in_an_operation(limit, no_collector):  # spec P10
    x = stowgrad.rand(200, 200, requires_grad=True)
    before = pool("cpu").used_bytes()
    pool("cpu").free_all_blocks()
    limit(8 * x.nbytes)
    for call in (
        lambda: F.scaled_dot_product_attention(*[(x * 2).expand(16, 200, 200).clone() for _ in range(3)]),
        lambda: stowgrad.linalg.svd((x * 2).expand(9, 200, 200)),
        lambda: nn.Sequential(*[nn.Tanh() for _ in range(20)])(x * 2),
        lambda: (x * 2).repeat(9, 9).sum().backward(),
    ):
        error = kept_error(call)
        assert isinstance(error, MemoryBudgetError)
        assert holders(error) == []
        del call
        assert pool("cpu").used_bytes() == before


def test_an_optimizer_step_that_fails(limit, no_collector):  # spec P10
    before = pool("cpu").used_bytes()
    weight = stowgrad.ones(100_000, requires_grad=True)
    weight.grad = stowgrad.ones(100_000)
    optimizer = stowgrad.optim.Adam([weight])
    pool("cpu").free_all_blocks()
    limit(weight.nbytes)
    error = kept_error(optimizer.step)
    assert isinstance(error, MemoryBudgetError)
    assert holders(error) == []
    del weight, optimizer
    assert pool("cpu").used_bytes() == before


class Inner(nn.Module):
    def forward(self, x):
        inner = x * 3
        return nn.functional.linear(inner, x.T)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), Inner())

    def forward(self, x):
        outer = x * 2
        return self.body(outer)


@pytest.mark.parametrize("hooked", [False, True])
def test_modules_of_the_users_keep_their_variables_and_no_others_do(hooked, no_collector):  # spec P10
    before = pool("cpu").used_bytes()
    model = Outer()
    if hooked:
        model.register_forward_hook(lambda module, args, output: None)
    error = kept_error(model, stowgrad.ones(3, 4))
    assert holders(error) == []
    users = {frame.f_code.co_qualname: frame.f_locals for frame in users_frames(error)}
    assert list(users["Outer.forward"]) == ["self", "x", "outer"]
    assert list(users["Inner.forward"]) == ["self", "x", "inner"]
    del users, error, model
    assert pool("cpu").used_bytes() == before


def users_frames(error):
    found, link = [], error.__traceback__
    while link is not None:
        if not link.tb_frame.f_code.co_filename.startswith(PACKAGE):
            found.append(link.tb_frame)
        link = link.tb_next
    return found


def test_a_hook_of_the_users_keeps_its_variables():  # spec P10
    def hook(gradient):
        kept = gradient * 2
        raise KeyError(tuple(kept.shape))

    x = stowgrad.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    error = kept_error(y.sum().backward)
    assert holders(error) == []
    assert list(users_frames(error)[-1].f_locals) == ["gradient", "kept"]


def test_an_attribute_error_keeps_what_lacks_the_attribute_only_if_it_is_the_users():  # spec P10
    def hook(gradient):
        gradient.no_such_attribute  # noqa: B018  # it is to fail

    assert kept_error(stowgrad.nn.utils.parameters_to_vector, iter([[stowgrad.ones(3)]])).obj is None
    x = stowgrad.ones(3, requires_grad=True)
    x.register_hook(hook)
    assert isinstance(kept_error((x * 2).sum().backward).obj, stowgrad.Tensor)


def test_nested_functions_that_fail_keep_nothing(no_collector):  # spec P10
    before = pool("cpu").used_bytes()
    calls = (
        lambda: stowgrad.std(stowgrad.rand(9), [stowgrad.rand(7)]),  # in comprehensions
        lambda: stowgrad.rand(3, 4).logit(stowgrad.rand(5, 6)),  # in the tiles of a kernel
    )
    for call in calls:
        error = kept_error(call)
        assert "<listcomp>" in str(own_frames(error)) or "tile" in str(own_frames(error))
        assert pool("cpu").used_bytes() == before


NESTED = """
def outer(kept, value):
    def inner():
        raise KeyError(value.shape)

    def other():
        return value

    if keeps:
        kept.append(inner)
    if shares:
        kept.append(other)
    return [inner() for _ in range(2)]
"""


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_a_nested_function_that_somebody_has_keeps_its_variables(keeps, shares, no_collector):
    namespace, kept = {"keeps": keeps, "shares": shares}, []
    exec(compile(NESTED, PACKAGE + "nested.py", "exec"), namespace)  # noqa: S102  # the test's own text
    before = pool("cpu").used_bytes()
    error = kept_error(lambda: namespace["outer"](kept, stowgrad.ones(3)))
    clear_own_frames(error)
    assert (pool("cpu").used_bytes() == before) == (not kept)
    for function in kept:
        if function.__name__ == "other":
            assert function().tolist() == [1.0, 1.0, 1.0]
        else:
            assert kept_error(function).args == ((3,),)


RAISES_AGAIN = """
class Base:
    def method(self):
        raise KeyError(0)

class Derived(Base):
    def method(self):
        try:
            super().method()
        except KeyError:
            raise


def outer(kept):
    def inner():
        try:
            raise KeyError(kept)
        except KeyError:
            raise
    kept.append(inner)
    inner()
"""


def test_a_frame_that_raises_again_is_not_taken_for_two():  # spec P10
    namespace, kept = {}, []
    exec(compile(RAISES_AGAIN, PACKAGE + "again.py", "exec"), namespace)  # noqa: S102  # the test's own text
    for function in (namespace["Derived"]().method, lambda: namespace["outer"](kept)):
        clear_own_frames(kept_error(function))
    assert kept_error(namespace["Derived"]().method).args == (0,)
    assert kept_error(kept[0]).args[0] is kept


def test_an_error_that_is_caught_inside_leaves_what_runs_alone():  # spec P10
    class Retries(nn.Module):
        def forward(self, x):
            try:
                return x.view(7)
            except RuntimeError:
                return x.view(12)

    assert Retries()(stowgrad.ones(3, 4)).shape == (12,)


# -- entries -----------------------------------------------------------------------------------------------------------


def public_functions():
    for namespace in NAMESPACES:
        for name in getattr(namespace, "__all__", vars(namespace)):
            value = getattr(namespace, name)
            own = getattr(value, "__module__", None) == namespace.__name__ or hasattr(namespace, "__all__")
            if own and name[0] != "_" and inspect.isfunction(value) and inspect.signature(value).parameters:
                yield namespace, name, value


def test_every_public_function_that_takes_arguments_is_an_entry():
    found = {f"{namespace.__name__}.{name}": value for namespace, name, value in public_functions()}
    assert len(found) > 700
    assert [name for name, value in found.items() if not is_entry(value)] == []


def test_public_functions_are_pickled_by_name():
    for _, name, value in public_functions():
        assert pickle.loads(pickle.dumps(value)) is value, name


def test_methods_and_functions_are_the_same_entries():
    assert stowgrad.Tensor.add is stowgrad.add
    assert stowgrad.special.softmax is stowgrad.softmax


def test_methods_of_tensors_are_entries_but_for_those_that_only_look():
    plain = {
        name
        for owner in stowgrad.Tensor.__mro__
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not is_entry(value) and not (name.startswith("_") and name[1] != "_")
    }
    assert plain == {
        *("__hash__", "detach", "dim", "element_size", "is_contiguous", "is_floating_point", "ndimension"),
        *("nelement", "numel"),
    }


def described(a, b=2, /, c: int = 3, *args, d=4, e, **others):
    """A function with arguments of every kind."""
    return a, b, c, args, d, e, others


def plainly(a, b=2, /, c: int = 3, *, d=4, e):
    """A function without stars."""
    return a, b, c, d, e


@pytest.mark.parametrize("function", [described, plainly])
def test_an_entry_looks_like_its_function(function):
    entry = leaves_no_tensors(function)
    assert is_entry(entry)
    assert not is_entry(function)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(entry, name) == getattr(function, name)
    assert entry.__wrapped__ is function
    assert entry.__globals__ is function.__globals__
    assert inspect.signature(entry) == inspect.signature(function)
    assert inspect.getsource(entry) == inspect.getsource(function)
    assert entry(1, e=5) == function(1, e=5)
    assert entry(1, 7, c=8, d=9, e=5) == function(1, 7, c=8, d=9, e=5)
    for wrong in (lambda f: f(), lambda f: f(1), lambda f: f(a=1, e=2), lambda f: f(1, 2, b=3)):
        assert str(kept_error(wrong, entry)) == str(kept_error(wrong, function))


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("keywords", range(4))
def test_arguments_arrive_by_position_and_by_name(count, keywords):
    first, others = ["a", "b", "c"][:count], ["x", "y", "z"][:keywords]
    if not first + others:
        return
    namespace = {}
    exec(f"def f({', '.join([*first, *(['*'] if others else []), *others])}): return locals()", namespace)  # noqa: S102  # the test's own text
    entry = leaves_no_tensors(namespace["f"])
    named = {name: object() for name in first + others}
    assert entry(**named) == named
    assert entry(*[named[name] for name in first], **{name: named[name] for name in others}) == named


def test_an_entry_adds_one_line_to_a_traceback_and_it_is_in_the_package():
    def fails(x):
        raise KeyError(x)

    error = kept_error(leaves_no_tensors(fails), 1)
    _, entry, function = traceback.extract_tb(error.__traceback__)
    assert entry.filename.startswith(PACKAGE)
    assert "function(" in entry.line
    assert (entry.name, function.name) == ("fails", "fails")


def test_a_wrapped_function_has_what_its_entry_is_given():
    @functools.wraps(plainly)
    def wrapper(*args, **kwargs):
        return plainly(*args, **kwargs)

    assert leaves_no_tensors(wrapper)(1, e=2) == (1, 2, 3, 4, 2)
