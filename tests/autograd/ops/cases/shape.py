"""Views and copies of another shape."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import cast, shape, sum_to

from .case import Case, rand, unary_cases

UNARY = {
    "clone": (cast.clone, rand),
}

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    Case("to_copy", lambda x: cast.to_dtype(x, np.dtype(np.float64)) * 2.0, (rand(2, 3),)),
    Case("to_device", lambda x: (x.to("sim:0") * 2.0).cpu(), (rand(2, 3),)),
    Case("view", lambda x: shape.view(x, (4, -1)), (rand(2, 6),)),
    Case("view", lambda x: shape.reshape(x.t(), (12,)), (rand(3, 4),), "reshape with a copy"),
    Case("permute", lambda x: shape.permute(x, (2, 0, -2)), (rand(2, 3, 4),)),
    Case("transpose", lambda x: shape.transpose(x, 0, -1), (rand(2, 3, 4),)),
    Case("cat", lambda x, y, z: shape.cat((x, y, z), 1), (rand(2, 1), rand(2, 3), rand(2, 2))),
    Case("cat", lambda x, y: shape.cat((x, y), -2), (rand(1, 2), rand(3, 2)), "first"),
    Case("split", lambda x: shape.split(x, (1, 2), 1), (rand(2, 3),)),
    Case("split", lambda x: shape.split(x, (1, 2), 1)[1], (rand(2, 3),), "one part unused"),
    Case("expand", lambda x: sum_to.expand(x, (2, 3, -1)), (rand(3, 1, 1)[:, 0].reshape(3, 1),)),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"zeros_of"}
