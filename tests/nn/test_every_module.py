"""Every module: forward and backward on each device, copies, and whether it runs without values."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn

pytestmark = pytest.mark.filterwarnings("ignore:reduction. .mean. divides")

LINE, ROWS = (2, 4, 9), (3, 4)
SIZES = {1: LINE, 2: (2, 4, 8, 8), 3: (2, 4, 6, 6, 6)}

# Name, arguments, shapes of the inputs: floating, or (shape, below) for integers.
CASES: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("AdaptiveLogSoftmaxWithLoss", (8, 9, [3, 6], 2.0), ((5, 8), ((5,), 9))),
    ("BCELoss", (), (ROWS, ROWS)),
    ("BCEWithLogitsLoss", (), (ROWS, ROWS)),
    ("Bilinear", (4, 5, 6), (ROWS, (3, 5))),
    ("ChannelShuffle", (2,), (LINE,)),
    ("CosineEmbeddingLoss", (0.1,), (ROWS, ROWS, ((3,), 2))),
    ("CosineSimilarity", (), (ROWS, ROWS)),
    ("CrossEntropyLoss", (), (ROWS, ((3,), 4))),
    ("Embedding", (6, 4, 0), (((2, 3), 6),)),
    ("EmbeddingBag", (6, 4), (((2, 3), 6),)),
    ("FractionalMaxPool2d", (2, 3), (SIZES[2],)),
    ("FractionalMaxPool3d", (2, 3), (SIZES[3],)),
    ("GRU", (4, 5, 2), (LINE[::-1][:2] + (4,),)),
    ("GRUCell", (4, 5), (ROWS,)),
    ("GaussianNLLLoss", (), (ROWS, ROWS, ROWS)),
    ("GroupNorm", (2, 4), (LINE,)),
    ("HingeEmbeddingLoss", (), (ROWS, (ROWS, 2))),
    ("KLDivLoss", (), (ROWS, ROWS)),
    ("LSTM", (4, 5, 1), ((7, 2, 4),)),
    ("LSTMCell", (4, 5), (ROWS,)),
    ("LayerNorm", (9,), (LINE,)),
    ("LazyLinear", (3,), (ROWS,)),
    ("Linear", (4, 3), (ROWS,)),
    ("LinearCrossEntropyLoss", (4, 5), (ROWS, ((3,), 5))),
    ("LocalResponseNorm", (2,), (LINE,)),
    ("MarginRankingLoss", (), (ROWS, ROWS, (ROWS, 2))),
    ("MultiLabelMarginLoss", (), (ROWS, (ROWS, 4))),
    ("MultiLabelSoftMarginLoss", (), (ROWS, ROWS)),
    ("MultiMarginLoss", (), (ROWS, ((3,), 4))),
    ("MultiheadAttention", (4, 2), ((7, 2, 4), (5, 2, 4), (5, 2, 4))),
    ("NLLLoss", (), (ROWS, ((3,), 4))),
    ("PReLU", (4,), (LINE,)),
    ("PairwiseDistance", (), (ROWS, ROWS)),
    ("PixelShuffle", (2,), (SIZES[2],)),
    ("PixelUnshuffle", (2,), (SIZES[2],)),
    ("RMSNorm", (9,), (LINE,)),
    ("RNN", (4, 5, 2), ((7, 2, 4),)),
    ("RNNCell", (4, 5), (ROWS,)),
    ("SoftMarginLoss", (), (ROWS, ROWS)),
    ("Softmax2d", (), (SIZES[2],)),
    ("Threshold", (0.1, 2.0), (LINE,)),
    ("Transformer", (4, 2, 1, 1, 8), ((5, 2, 4), (3, 2, 4))),
    ("TransformerDecoderLayer", (4, 2, 8), ((5, 2, 4), (3, 2, 4))),
    ("TransformerEncoderLayer", (4, 2, 8), ((5, 2, 4),)),
    ("TripletMarginLoss", (), (ROWS, ROWS, ROWS)),
    ("TripletMarginWithDistanceLoss", (), (ROWS, ROWS, ROWS)),
    ("Unflatten", (1, (2, 2)), (LINE,)),
    ("Unfold", (2,), (SIZES[2],)),
    ("Upsample", (5,), (LINE,)),
    ("UpsamplingBilinear2d", (5,), (SIZES[2],)),
    ("UpsamplingNearest2d", (5,), (SIZES[2],)),
]
CASES += [
    (name, (), (LINE,)) for name in ("CELU", "Dropout1d", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish")
]
CASES += [(name, (), (LINE,)) for name in ("AlphaDropout", "Dropout", "FeatureAlphaDropout", "Flatten", "Hardtanh")]
CASES += [(name, (), (LINE,)) for name in ("Identity", "LeakyReLU", "LogSigmoid", "Mish", "RReLU", "ReLU", "ReLU6")]
CASES += [(name, (), (LINE,)) for name in ("SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh")]
_PADS = ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad")
CASES += [("Tanhshrink", (), (LINE,)), ("Hardswish", (), (LINE,)), ("GLU", (1,), (LINE,))]
CASES += [(name, (1,), (LINE,)) for name in ("LogSoftmax", "Softmax", "Softmin")]
CASES += [(name, (), (ROWS, ROWS)) for name in ("HuberLoss", "L1Loss", "MSELoss", "PoissonNLLLoss", "SmoothL1Loss")]
CASES += [(f"Dropout{dims}d", (), (SIZES[dims],)) for dims in (2, 3)]
for DIMS, SHAPE in SIZES.items():
    CASES += [(f"{name}{DIMS}d", (4, 3, 3), (SHAPE,)) for name in ("Conv", "ConvTranspose")]
    CASES += [(f"{name}{DIMS}d", (3, 3), (SHAPE,)) for name in ("LazyConv", "LazyConvTranspose")]
    CASES += [(f"{name}{DIMS}d", (4,), (SHAPE,)) for name in ("BatchNorm", "InstanceNorm")]
    CASES += [(f"{name}{DIMS}d", (), (SHAPE,)) for name in ("LazyBatchNorm", "LazyInstanceNorm")]
    CASES += [(f"{name}{DIMS}d", (2,), (SHAPE,)) for name in ("AvgPool", "MaxPool")]
    CASES += [(f"Adaptive{name}{DIMS}d", (2,), (SHAPE,)) for name in ("AvgPool", "MaxPool")]
    CASES += [
        (f"{name}{DIMS}d", (1,), (SHAPE,)) for name in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad")
    ]
    CASES += [(f"ConstantPad{DIMS}d", (1, 2.0), (SHAPE,)), (f"LPPool{DIMS}d", (2, 2), (SHAPE,))]
# They take something else than random numbers, or aren't called.
ELSEWHERE = {
    *("CTCLoss", "Fold", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Module", "ModuleDict", "ModuleList"),
    *("ParameterDict", "ParameterList", "RNNBase", "RNNCellBase", "Sequential"),
    *("TransformerDecoder", "TransformerEncoder"),
}
IDS = [case[0] for case in CASES]


def inputs(shapes: tuple[Any, ...], device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    made = []
    for shape in shapes:
        if shape and isinstance(shape[0], tuple):
            made.append(stowgrad.tensor(rng.integers(0, shape[1], shape[0]), device=device))
        else:
            values = rng.uniform(0.1, 0.9, shape).astype(np.float32)  # probabilities, too
            made.append(stowgrad.tensor(values, device=device, requires_grad=not made))
    return made


def first(output: Any) -> Any:
    return first(output[0]) if isinstance(output, tuple) else output


def test_every_module_has_a_case():
    assert {*IDS} | ELSEWHERE == {*nn.modules.__all__}
    assert not {*IDS} & ELSEWHERE


@pytest.mark.parametrize(("name", "args", "shapes"), CASES, ids=IDS)
def test_on_a_device(name: str, args: tuple[Any, ...], shapes: tuple[Any, ...], device: str):
    module = getattr(nn, name)(*args).to(device=device)
    given = inputs(shapes, device)
    output = first(module(*given))
    assert str(output.device) == device
    assert output.dtype == stowgrad.float32
    output.sum().backward()
    leaves = [x for x in (*given, *module.parameters()) if x.requires_grad]
    assert leaves
    assert all(math.isfinite(float(leaf.grad.sum().item())) for leaf in leaves)


@pytest.mark.parametrize(("name", "args", "shapes"), CASES, ids=IDS)
def test_copies(name: str, args: tuple[Any, ...], shapes: tuple[Any, ...]):
    module = getattr(nn, name)(*args)
    given = inputs(shapes, "cpu")
    results = []
    for twin in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(twin) == repr(module)
        if not name.startswith("Lazy"):
            stowgrad.manual_seed(0)
            results.append(first(twin(*given)).detach().numpy())
            np.testing.assert_array_equal(results[0], results[-1])


@pytest.mark.parametrize(("name", "args", "shapes"), CASES, ids=IDS)
def test_in_bfloat16(name: str, args: tuple[Any, ...], shapes: tuple[Any, ...]):
    module = getattr(nn, name)(*args)
    given = inputs(shapes, "cpu")
    stowgrad.manual_seed(0)
    expected = first(module(*given)).detach().numpy()
    stowgrad.manual_seed(0)
    got = first(module.bfloat16()(*[x.bfloat16() if x.is_floating_point() else x for x in given]))
    assert got.dtype == stowgrad.bfloat16
    np.testing.assert_allclose(got.detach().float().numpy(), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(("name", "args", "shapes"), CASES, ids=IDS)
def test_without_values(name: str, args: tuple[Any, ...], shapes: tuple[Any, ...]):
    """On the device ``meta`` shapes and dtypes come out as elsewhere, forward and backward."""
    module = getattr(nn, name)(*args)
    given = inputs(shapes, "cpu")
    expected = first(module(*given))
    if name == "AdaptiveLogSoftmaxWithLoss":  # it looks into the target
        return
    twin = getattr(nn, name)(*args).to(device="meta")
    empties = [stowgrad.empty(x.shape, dtype=x.dtype, device="meta").requires_grad_(x.requires_grad) for x in given]
    output = first(twin(*empties))
    assert (output.shape, output.dtype, str(output.device)) == (expected.shape, expected.dtype, "meta")
    output.sum().backward()
    assert [p.grad.shape for p in twin.parameters()] == [p.shape for p in module.parameters()]
