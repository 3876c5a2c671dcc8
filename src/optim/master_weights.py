"""Parameters stored in 16 bits, optimized in float32 (Micikevicius et al., 2018, "Mixed Precision Training")."""

from __future__ import annotations

from typing import TypeVar

from .lbfgs import LBFGS
from .optimizer import Optimizer
from .state import MASTER_WEIGHTS

OptimizerT = TypeVar("OptimizerT", bound=Optimizer)


def master_weights(optimizer: OptimizerT) -> OptimizerT:
    """Let an optimizer keep a float32 copy of every parameter in bfloat16 or float16, and update that.

    Args:
        optimizer: any but L-BFGS, before its first step. Parameters of other dtypes are optimized as before.

    Returns:
        The optimizer.

    Raises:
        TypeError: for L-BFGS.
        RuntimeError: if steps were done: their states are of the parameters' dtype.

    An update smaller than half of a parameter's last bit is lost when the parameter itself is updated; added to the
    copy, such updates add up. The copy and all running means are float32. After each update the parameter is the copy,
    rounded. Whoever writes a parameter in between must know that the next update starts from the copy,
    ``optimizer.state[parameter]["master_weight"]``.

    An element costs 2 bytes, and 2 for its gradient, in place of 4 and 4; the copy costs 4, in the category
    ``"optimizer_state"``. An update takes a float32 copy of one gradient at a time. It works on every device and with
    `in_backward`, and travels in the optimizer's ``state_dict``.

    >>> import stowgrad
    >>> layer = stowgrad.nn.Linear(2, 1, bias=False).bfloat16()
    >>> with stowgrad.no_grad():
    ...     _ = layer.weight.fill_(1.0)
    >>> optimizer = master_weights(stowgrad.optim.SGD(layer.parameters(), lr=0.001))
    >>> for _ in range(4):
    ...     optimizer.zero_grad()
    ...     layer(stowgrad.ones(1, 2, dtype=stowgrad.bfloat16)).sum().backward()
    ...     optimizer.step()
    >>> layer.weight.float().tolist()  # 1 - 0.004, rounded; without the copy it would still be 1
    [[0.99609375, 0.99609375]]
    """
    if isinstance(optimizer, LBFGS):
        raise TypeError("master_weights: L-BFGS works on all parameters as one vector, and keeps no copies of them")
    if any(optimizer.state.values()):
        raise RuntimeError("master_weights: call it before the first step; this optimizer has states already")
    optimizer.defaults[MASTER_WEIGHTS] = True
    for group in optimizer.param_groups:
        group[MASTER_WEIGHTS] = True
    return optimizer
