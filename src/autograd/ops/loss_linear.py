"""Cross-entropy of a linear layer whose logits never exist all at once."""

from __future__ import annotations

from typing import Any

from ...kernels import backend
from ...memory import META
from ...saved_tensors.state import current
from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from ..variable import Variable
from .elementwise import mul
from .linalg import linear
from .loss import check_class_weight, check_targets, class_weight, exact_dtype, row_losses
from .promotion import check_floating
from .recompose import differentiated
from .reduce import sum


def _check(name: str, x: Any, weight: Any, bias: Any, targets: Any, factors: Any, ignore_index: int) -> None:
    check_floating(name, x.dtype)
    linear.infer(x, weight, bias)
    check_targets(name, x.shape[0], weight.shape[0], targets, ignore_index)
    check_class_weight(name, weight.shape[0], factors)


def _options(class_weight: Any, ignore_index: int, label_smoothing: float, z_loss: float) -> dict[str, Any]:
    return {
        "class_weight": class_weight,
        "ignore_index": ignore_index,
        "label_smoothing": label_smoothing,
        "z_loss": z_loss,
    }


class LinearCrossEntropy(Op):
    """The loss of each row of ``x @ weight.T + bias``, computed a chunk of rows at a time.

    The logits are computed again in backward, so that no more than a chunk of them ever exists. Called with input,
    weight, bias, class numbers and weights of the classes (biases and these may be None), the number of rows to leave
    out, the share of the loss that all classes get evenly, and the factor of the squared log-sum-exp.

    Source: Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024 (the idea; here
    in the chunked form).
    """

    name = "linear_cross_entropy"
    inputs = 5
    auxiliary = 1
    saves = (
        Slot("input", 0),
        Slot("weight", 1),
        Slot("bias", 2),
        Slot("target", 3),
        Slot("class_weight", 4),
        Slot("logsumexp", 1, output=True),
    )

    def __call__(
        self,
        x: Any,
        weight: Any,
        bias: Any,
        targets: Any,
        factors: Any = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> Any:
        factors = class_weight(self.name, factors, x)
        return apply(self, x, weight, bias, targets, factors, ignore_index, float(label_smoothing), float(z_loss))

    def infer(self, x: Any, weight: Any, bias: Any, targets: Any, factors: Any, *attrs: Any) -> tuple[Spec, ...]:
        _check(self.name, x, weight, bias, targets, factors, attrs[0])
        return (x.shape[:1], x.dtype), (x.shape[:1], exact_dtype(x.dtype))

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, targets: Any, factors: Any, *rest: Any) -> None:
        *attrs, losses, lse = rest
        k.linear_cross_entropy(x, weight, bias, targets, losses, lse, **_options(factors, *attrs))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(linear_cross_entropy_backward, grads[0], *saved, *node.op_attrs, node.needs_grad)
        return (*(g if needed else None for g, needed in zip(results, node.needs_grad, strict=False)), None, None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, bias, targets, factors, _ = saved

        def compose(x: Any, weight: Any, bias: Any) -> Any:
            return row_losses(linear(x, weight, bias), targets, factors, *node.op_attrs)

        return (*differentiated(compose, (x, weight, bias), node.needs_grad[:3], grads[0]), None, None)


class LinearCrossEntropyBackward(Op):
    """The gradients of input, weight and bias; those that are not needed are empty."""

    name = "linear_cross_entropy_backward"
    inputs = 7
    outputs = 3

    def infer(self, grad: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> tuple[Spec, ...]:
        needs = rest[-1]
        shapes = (x.shape, weight.shape, weight.shape[:1])
        return tuple((shape if needed else (0,), x.dtype) for shape, needed in zip(shapes, needs, strict=False))

    def kernel(self, k: Any, grad: Any, x: Any, weight: Any, bias: Any, targets: Any, *rest: Any) -> None:
        factors, lse, *attrs, needs, by_x, by_weight, by_bias = rest
        wanted = [out if needed else None for out, needed in zip((by_x, by_weight, by_bias), needs, strict=False)]
        options = _options(factors, *attrs)
        k.linear_cross_entropy_backward(grad, x, weight, bias, targets, lse, *wanted, **options)


class LinearCrossEntropyLoss(Op):
    """``scale`` times the sum of the losses of the rows, with the gradients computed while the logits are there.

    What a pass reads is the gradients of input, weight and bias, up to the gradient of the result, which is one number.
    The inputs are kept for second derivatives only. Called like `LinearCrossEntropy`, with ``scale`` after the tensors.
    """

    name = "linear_cross_entropy_loss"
    inputs = 5
    consumes_saved = True
    auxiliary = 3
    saves = (
        Slot("grad_input", 1, output=True, needed_for=(0,)),
        Slot("grad_weight", 2, output=True, needed_for=(1,)),
        Slot("grad_bias", 3, output=True, needed_for=(2,)),
        Slot("input", 0),
        Slot("weight", 1),
        Slot("bias", 2),
        Slot("target", 3),
        Slot("class_weight", 4),
    )

    def __call__(
        self,
        x: Any,
        weight: Any,
        bias: Any,
        targets: Any,
        factors: Any,
        scale: float,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> Any:
        recording = current().grad_enabled
        wanted = tuple(recording and isinstance(t, Variable) and t._requires_grad for t in (x, weight, bias))
        attrs = (float(scale), ignore_index, float(label_smoothing), float(z_loss))
        return apply(self, x, weight, bias, targets, class_weight(self.name, factors, x), *attrs, wanted)

    def infer(self, x: Any, weight: Any, bias: Any, targets: Any, factors: Any, *attrs: Any) -> tuple[Spec, ...]:
        _, ignore_index, *_, wanted = attrs
        _check(self.name, x, weight, bias, targets, factors, ignore_index)
        shapes = (x.shape, weight.shape, weight.shape[:1])
        grads = tuple((shape if want else (0,), x.dtype) for shape, want in zip(shapes, wanted, strict=True))
        return (((), x.dtype), *grads)

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, targets: Any, factors: Any, *rest: Any) -> None:
        scale, *attrs, wanted, out, by_x, by_weight, by_bias = rest
        outs = [grad if want else None for grad, want in zip((by_x, by_weight, by_bias), wanted, strict=True)]
        options = _options(factors, *attrs)
        k.linear_cross_entropy_with_grads(x, weight, bias, targets, out, *outs, scale=scale, **options)

    def attrs(self, *args: Any) -> Any:
        return args[5:9]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (*(None if unit is None else do(mul, unit, grads[0]) for unit in saved[:3]), None, None)

    def backward_once(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        for unit in saved[:3]:
            if unit is not None and node.run_device is not META:
                backend(node.run_device.type).multiply(unit, grads[0], unit)
        return (*saved[:3], None, None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, bias, targets, factors = saved[3:]
        scale, *attrs = node.op_attrs

        def compose(x: Any, weight: Any, bias: Any) -> Any:
            return mul(sum(row_losses(linear(x, weight, bias), targets, factors, *attrs)), scale)

        return (*differentiated(compose, (x, weight, bias), node.needs_grad[:3], grads[0]), None, None)


linear_cross_entropy = LinearCrossEntropy()
linear_cross_entropy_backward = LinearCrossEntropyBackward()
linear_cross_entropy_loss = LinearCrossEntropyLoss()
