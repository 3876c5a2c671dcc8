"""Modules of which PyTorch has no sample inputs, beside PyTorch's: see `CASES`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad import nn

from . import moduleinfo
from .opinfo_compare import compare_tensors, host, leaves

DRAW = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return DRAW.standard_normal(shape)


class Case(NamedTuple):
    """A module and what it is called with: arrays become tensors, floating ones with a gradient."""

    name: str
    settings: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}  # noqa: RUF012  # never written to
    inputs: tuple[Any, ...] = (drawn(2, 4, 6),)
    train: bool = True
    tolerance: float = 1e-10


IMAGE = drawn(2, 4, 6, 6)
INDICES = np.array([[0, 3, 3], [5, 2, 2]])
CASES = [
    Case("AdaptiveLogSoftmaxWithLoss", (16, 12, [3, 7], 2.0), {}, (drawn(5, 16), np.array([0, 2, 4, 11, 7]))),
    Case("AdaptiveLogSoftmaxWithLoss", (6, 12, [3]), {"head_bias": True}, (drawn(6), np.array(4))),
    Case("AlphaDropout", (0.3,), train=False),
    Case("ChannelShuffle", (2,)),
    Case("CosineSimilarity", (), {"dim": 2}, (drawn(2, 4, 6), drawn(2, 4, 6))),
    Case("Dropout", (0.3, True), train=False),
    Case("Dropout", (1.0,)),
    Case("Dropout1d", train=False),
    Case("Dropout2d", inputs=(IMAGE,), train=False),
    Case("Dropout3d", (0.0,), inputs=(drawn(2, 3, 4, 4, 4),)),
    Case("Embedding", (6, 3, -2), {"scale_grad_by_freq": True}, (INDICES,)),
    Case("Embedding", (6, 3), {"max_norm": 0.5, "norm_type": 1.0}, (INDICES,)),
    Case("EmbeddingBag", (6, 3), {}, (INDICES,)),
    Case("EmbeddingBag", (6, 3), {"mode": "max", "padding_idx": 3}, (INDICES,)),
    Case("EmbeddingBag", (6, 3), {"mode": "sum", "max_norm": 1.0}, (INDICES, None, drawn(2, 3))),
    Case("EmbeddingBag", (6, 3), {"include_last_offset": True}, (INDICES[0], np.array([0, 1, 3]))),
    Case("FeatureAlphaDropout", train=False),
    Case("Flatten"),
    Case("Flatten", (0, 1)),
    Case("Fold", ((4, 5), (2, 2)), {}, (drawn(2, 8, 12),)),
    Case("Hardsigmoid", tolerance=1e-7),
    Case("Identity", (1, 2), {"some": "thing"}),
    Case("PReLU", (4,)),
    Case("PairwiseDistance", (1.0,), {"keepdim": True}, (drawn(3, 4), drawn(3, 4))),
    Case("PixelShuffle", (2,), inputs=(IMAGE,)),
    Case("PixelUnshuffle", (2,), inputs=(IMAGE,)),
    Case("RReLU", (0.1, 0.2), train=False),
    Case("TripletMarginLoss", (0.7,), {"swap": True, "reduction": "sum"}, (drawn(5, 4), drawn(5, 4), drawn(5, 4))),
    Case("TripletMarginWithDistanceLoss", (), {"margin": 2.0}, (drawn(5, 4), drawn(5, 4), drawn(5, 4))),
    Case("Unflatten", (1, (2, -1))),
    Case("Unfold", (2,), {"padding": 1, "stride": 2}, (IMAGE,)),
    Case("Upsample", (), {"scale_factor": (2, 1.5), "mode": "bilinear"}, (IMAGE,)),
    Case("Upsample", (9,)),
    Case("UpsamplingBilinear2d", (), {"scale_factor": 2}, (IMAGE,)),
    Case("UpsamplingNearest2d", ((3, 8),), inputs=(IMAGE,)),
]
CASES += [
    Case(f"ConvTranspose{dims}d", (4, 2, 3), {"stride": 2}, (drawn(2, 4, *[5] * dims), [12] * dims))
    for dims in (1, 2, 3)
]


def tensors(values: tuple[Any, ...], lib: Any) -> list[Any]:
    return [
        lib.tensor(value, requires_grad=value.dtype.kind == "f") if isinstance(value, np.ndarray) else value
        for value in values
    ]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_like_pytorch(case: Case):
    theirs = getattr(torch.nn, case.name)(*case.settings, **case.keywords).double().train(case.train)
    ours = getattr(nn, case.name)(*case.settings, **case.keywords)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    moduleinfo.load(ours, theirs)
    mine, others = tensors(case.inputs, stowgrad), tensors(case.inputs, torch)
    if case.keywords.get("inplace") or case.settings[1:] == (True,):
        mine[0], others[0] = mine[0].detach(), others[0].detach()
    got, expected = ours(*mine), theirs(*others)
    for value, other, where in leaves(got, expected):
        compare_tensors(value, other, where, case.tolerance)
    pairs = [(value, other) for value, other, _ in leaves(got, expected) if other.requires_grad]
    for value, other in pairs:
        direction = drawn(*other.shape)
        value.backward(stowgrad.tensor(direction), retain_graph=True)
        other.backward(torch.tensor(direction), retain_graph=True)
    leaves_of_both = [*zip(mine, others, strict=True), *zip(ours.parameters(), theirs.parameters(), strict=True)]
    for value, other in leaves_of_both:
        if isinstance(other, torch.Tensor) and other.grad is not None:
            compare_tensors(value.grad, other.grad, "gradient", case.tolerance)
    for name, other in theirs.state_dict().items():
        compare_tensors(ours.state_dict()[name], other, name, 1e-10)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_what_pooling_took_can_be_put_back(dims: int):
    x = drawn(2, 3, *[7] * dims)
    results = []
    for lib in (stowgrad, torch):
        pool = getattr(lib.nn, f"MaxPool{dims}d")(3, 2, return_indices=True)
        back = getattr(lib.nn, f"MaxUnpool{dims}d")(3, 2)
        t = lib.tensor(x, requires_grad=True)
        out = back(*pool(t), output_size=[7] * dims)
        (out**2).sum().backward()
        results.append((repr(pool), repr(back), out.detach().numpy(), t.grad.numpy()))
    assert results[0][:2] == results[1][:2]
    np.testing.assert_array_equal(results[0][2], results[1][2])
    np.testing.assert_allclose(results[0][3], results[1][3], rtol=1e-12)


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"])
def test_in_training_numbers_are_drawn(name: str):
    stowgrad.manual_seed(0)
    made = getattr(nn, name)()
    x = stowgrad.tensor(-np.abs(drawn(4, 5, 6)), requires_grad=True)
    one, two = made(x), made(x)
    assert (one.detach().numpy() != two.detach().numpy()).any()
    one.sum().backward()
    assert x.grad.shape == x.shape
    assert made.eval()(x).detach().numpy().shape == x.shape


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Conv2d", (4, 4, 3), {"groups": 0}),
    ("Conv2d", (3, 4, 3), {"groups": 2}),
    ("Conv2d", (4, 3, 3), {"groups": 2}),
    ("Conv2d", (3, 4, 3), {"padding": "full"}),
    ("Conv2d", (3, 4, 3), {"padding": "same", "stride": 2}),
    ("Conv2d", (3, 4, 3), {"padding_mode": "mirror"}),
    ("ConvTranspose2d", (3, 4, 3), {"padding_mode": "reflect"}),
    ("Dropout", (1.5,), {}),
    ("FractionalMaxPool2d", (2,), {}),
    ("FractionalMaxPool2d", (2,), {"output_ratio": 1.5}),
    ("GroupNorm", (3, 4), {}),
    ("HuberLoss", (), {"delta": "x"}),
    ("LSTM", (3, 4), {"proj_size": 4}),
    ("LSTM", (0, 4), {}),
    ("LSTM", (3, 4), {"dropout": 2}),
    ("LSTM", (3, 4), {"bias": 1}),
    ("MultiheadAttention", (0, 1), {}),
    ("MultiheadAttention", (5, 2), {}),
    ("MultiMarginLoss", (3,), {}),
    ("RNN", (3, 4), {"nonlinearity": "sin"}),
    ("TransformerEncoderLayer", (4, 2), {"activation": "sin"}),
    ("TripletMarginLoss", (0.0,), {}),
    ("Unflatten", (1, 3), {}),
    ("Unflatten", (1, (2.0, 3)), {}),
    ("AdaptiveLogSoftmaxWithLoss", (6, 12, [7, 3]), {}),
    ("AdaptiveLogSoftmaxWithLoss", (6, 12, []), {}),
    ("Bilinear", (0, 2, 3), {}),
    ("Hardtanh", (2.0, 1.0), {}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), BAD)
def test_bad_settings_raise_what_pytorch_raises(name: str, args: tuple[Any, ...], keywords: dict[str, Any]):
    expected: type[Exception] = Warning
    try:
        getattr(torch.nn, name)(*args, **keywords)
    except (ValueError, TypeError, RuntimeError, AssertionError) as error:
        expected = type(error)
    with pytest.raises(expected):
        getattr(nn, name)(*args, **keywords)


BAD_INPUTS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("BatchNorm1d", (3,), (2, 3, 4, 4)),
    ("BatchNorm2d", (3,), (2, 3)),
    ("BatchNorm2d", (3,), (1, 3, 1, 1)),
    ("InstanceNorm2d", (3,), (2, 3)),
    ("CircularPad1d", (1,), (2, 3, 4, 4)),
    ("GRU", (3, 4), (2,)),
    ("GRU", (3, 4), (2, 2, 5)),
    ("LSTMCell", (3, 4), (2, 2, 3)),
    ("LSTMCell", (3, 4), (2, 5)),
    ("Softmax2d", (), (2, 3)),
    ("Linear", (3, 4), (2, 5)),
    ("Conv1d", (3, 4, 3), (2, 5, 6)),
]


@pytest.mark.parametrize(("name", "args", "shape"), BAD_INPUTS)
def test_bad_inputs_raise_what_pytorch_raises(name: str, args: tuple[Any, ...], shape: tuple[int, ...]):
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        getattr(torch.nn, name)(*args)(torch.zeros(shape))
    with pytest.raises(theirs.type):
        getattr(nn, name)(*args)(stowgrad.zeros(shape))


def test_the_first_values_have_pytorchs_distribution():
    stowgrad.manual_seed(0)
    torch.manual_seed(0)
    for name, args in [
        ("Conv2d", (16, 32, 5)),
        ("ConvTranspose2d", (16, 32, 5)),
        ("Bilinear", (20, 20, 30)),
        ("LSTM", (40, 50)),
        ("GRUCell", (40, 50)),
        ("MultiheadAttention", (64, 4)),
        ("EmbeddingBag", (50, 40)),
        ("Linear", (60, 70)),
    ]:
        ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
        for (key, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert tuple(mine.shape) == tuple(other.shape)
            if other.numel() > 1000:
                assert mine.detach().numpy().std() == pytest.approx(float(other.detach().std()), rel=0.1), (name, key)
            else:
                assert bool(mine.detach().numpy().any()) == bool(host(other).any()), (name, key)
