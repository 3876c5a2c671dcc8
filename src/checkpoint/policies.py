"""What a selective checkpoint keeps: decisions, and ready-made policies."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from ..autograd.ops.pointwise import Binary, Unary


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's results: they are kept, computed again, or kept in host memory.

    ``MUST`` and ``PREFER`` do the same: nothing overrules a policy here, as a compiler may in PyTorch.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext(NamedTuple):
    """What a policy is told besides the op and its inputs.

    Attributes:
        is_recompute: whether it is the second run; policies are asked in the first only, so it is False.
    """

    is_recompute: bool = False


Decision: TypeAlias = CheckpointPolicy | bool
Policy: TypeAlias = Callable[..., Decision]
SAVED = frozenset({CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE})
OFFLOADED = frozenset({CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD})

MATRIX_PRODUCTS = frozenset({"addmm", "convolution", "einsum", "linear", "matmul", "scaled_dot_product_attention"})
NORMS = frozenset(
    {
        "batch_norm_given", "local_response_norm", "native_batch_norm", "native_group_norm", "native_layer_norm",
        "rms_norm",
    }
)  # fmt: skip


def _names_of(kind: type[Any]) -> Iterator[str]:
    derived: type[Any]
    for derived in kind.__subclasses__():
        if isinstance(name := derived.__dict__.get("name"), str):
            yield name
        yield from _names_of(derived)


# Those that derive from the two classes, and those that do more than one thing in one go.
ELEMENTWISE = frozenset({*_names_of(Unary), *_names_of(Binary)}) | {
    "abs", "addcdiv", "addcmul", "alpha_dropout", "bias_activation", "bias_relu", "clamp", "clamp_between", "clone",
    "elu", "gated", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "lerp",
    "log_sigmoid", "mish", "nan_to_num", "native_dropout", "prelu", "relu", "rotary_embedding", "rrelu_with_noise",
    "softplus", "softshrink", "softsign", "threshold", "to_copy", "where",
}  # fmt: skip


def keep_matrix_products(ctx: SelectiveCheckpointContext, op: str, *inputs: Any) -> CheckpointPolicy:
    """A policy: keep the results of matrix products, convolutions and attention; compute everything else again.

    >>> keep_matrix_products(SelectiveCheckpointContext(), "linear").name
    'PREFER_SAVE'
    """
    return CheckpointPolicy.PREFER_SAVE if op in MATRIX_PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def recompute_elementwise(ctx: SelectiveCheckpointContext, op: str, *inputs: Any) -> CheckpointPolicy:
    """A policy: compute element-wise ops and norms again, which costs little; keep the results of everything else.

    >>> [recompute_elementwise(SelectiveCheckpointContext(), op).name for op in ("gelu", "native_layer_norm", "cumsum")]
    ['PREFER_RECOMPUTE', 'PREFER_RECOMPUTE', 'PREFER_SAVE']
    """
    cheap = op in ELEMENTWISE or op in NORMS
    return CheckpointPolicy.PREFER_RECOMPUTE if cheap else CheckpointPolicy.PREFER_SAVE


class ListPolicy:
    """A policy: keep the results of the ops of these names, and values that the program calls by these names.

    Attributes:
        ops: names of ops.
        names: names of values (`checkpoint_name`).
    """

    def __init__(self, ops: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        self.ops = frozenset(ops)
        self.names = tuple(names)

    def __call__(self, ctx: SelectiveCheckpointContext, op: str, *inputs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op in self.ops else CheckpointPolicy.PREFER_RECOMPUTE


def keep_names(*names: str) -> ListPolicy:
    """A policy: keep the results of the ops whose values the program calls by one of these names (`checkpoint_name`).

    >>> keep_names("ffn_in", "scores").names
    ('ffn_in', 'scores')
    """
    return ListPolicy(names=names)


def unmatched(policy: Policy, ops: set[str], names: set[str]) -> list[str]:
    """Which rules of a policy matched none of the ops and names of a region; a function of the user's has none."""
    if isinstance(policy, ListPolicy):
        return sorted({*policy.ops} - ops | {*policy.names} - names)
    for ready_made, among in ((keep_matrix_products, MATRIX_PRODUCTS), (recompute_elementwise, ELEMENTWISE | NORMS)):
        if policy is ready_made and not among & ops:
            return [ready_made.__name__]
    return []


# What a person calls an op, where its record has another name.
_RECORDS = {
    **dict.fromkeys(("bmm", "dot", "inner", "mm", "mv", "outer"), "matmul"),
    **dict.fromkeys(("addbmm", "addmv", "baddbmm"), "addmm"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "convolution"),
    **dict.fromkeys(("bilinear", "tensordot"), "einsum"),
    "batch_norm": "native_batch_norm",
    "dropout": "native_dropout",
    "group_norm": "native_group_norm",
    "layer_norm": "native_layer_norm",
}


def op_name(op: Any) -> str:
    """The name of an op's record, from a name or a function.

    Raises:
        TypeError: if it is neither.
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", getattr(op, "name", None))
    if not isinstance(name, str):
        raise TypeError(
            "create_selective_checkpoint_contexts: expected names of ops or functions in the list, got"
            f" {type(op).__name__}"
        )
    return _RECORDS.get(name, name)
