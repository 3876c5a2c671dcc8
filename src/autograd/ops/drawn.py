"""Random numbers whose distribution depends on tensors."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .elementwise import mul
from .promotion import check_floating
from .shape import zeros_of


class Drawn(Op):
    """Numbers that were drawn, beside the one or two tensors that say how: those get zeros for a gradient.

    Args:
        name: PyTorch's name of the op that drew them.
    """

    name = "drawn"
    inputs = 3

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def infer(self, values: Any, first: Any, second: Any) -> tuple[Spec, ...]:
        return ((values.shape, values.dtype),)

    def kernel(self, k: Any, values: Any, first: Any, second: Any, out: Any) -> None:
        k.copy(values, out)

    def attrs(self, values: Any, first: Any, second: Any) -> Any:
        return [getattr(value, "shape", ()) for value in (values, first, second)]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        pairs = zip(node.needs_grad, node.op_attrs, strict=True)
        return tuple([do(zeros_of, grads[0], shape) if needed else None for needed, shape in pairs])


class Poisson(Op):
    """Poisson numbers of given means; called with the place in a random stream, like all that follow."""

    name = "poisson"

    def infer(self, rate: Any, key: int, counter: int) -> tuple[Spec, ...]:
        check_floating(self.name, rate.dtype)
        return ((rate.shape, rate.dtype),)

    def kernel(self, k: Any, rate: Any, key: int, counter: int, out: Any) -> None:
        k.poisson(rate, out, key=key, counter=counter)

    def attrs(self, *args: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_of, grads[0], tuple(grads[0].shape)),)


class Binomial(Op):
    """How many of some trials succeed with some probability; like PyTorch's, it has no derivative."""

    name = "binomial"
    inputs = 2

    def infer(self, count: Any, prob: Any, key: int, counter: int) -> tuple[Spec, ...]:
        return ((count.shape, count.dtype),)

    def kernel(self, k: Any, count: Any, prob: Any, key: int, counter: int, out: Any) -> None:
        k.binomial(count, prob, out, key=key, counter=counter)

    def attrs(self, *args: Any) -> Any:
        return None


class StandardGamma(Op):
    """Gamma-distributed numbers of scale 1, that move with the shapes of their distributions.

    Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018.
    """

    name = "standard_gamma"
    saves = (Slot("self", 0), Slot("result", 0, output=True))

    def infer(self, x: Any, key: int, counter: int) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, key: int, counter: int, out: Any) -> None:
        k.standard_gamma(x, out, key=key, counter=counter)

    def attrs(self, *args: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(standard_gamma_grad, *saved)),)


class StandardGammaGrad(Op):
    """The derivatives of gamma-distributed numbers by the shapes of their distributions; it has none itself."""

    name = "standard_gamma_backward"
    inputs = 2

    def infer(self, x: Any, sample: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, sample: Any, out: Any) -> None:
        k.standard_gamma_grad(x, sample, out)


drawn_bernoulli, drawn_normal = Drawn("bernoulli"), Drawn("normal")
poisson = Poisson()
binomial = Binomial()
standard_gamma = StandardGamma()
standard_gamma_grad = StandardGammaGrad()
