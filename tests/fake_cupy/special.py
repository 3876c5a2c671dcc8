"""``cupyx.scipy.special`` of the double: SciPy's functions."""

from __future__ import annotations

import types

import scipy.special

from .arrays import words, writing

FUNCTIONS = words(
    "digamma entr erfc erfcx erfinv gammainc gammaincc gammaln i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtr ndtri"
    " y0 y1 zeta"
)


def modules() -> dict[str, types.ModuleType]:
    """``cupyx`` and what lies in it, by name."""
    made = {name: types.ModuleType(name) for name in ("cupyx", "cupyx.scipy", "cupyx.scipy.special")}
    vars(made["cupyx"])["scipy"] = made["cupyx.scipy"]
    vars(made["cupyx.scipy"])["special"] = made["cupyx.scipy.special"]
    vars(made["cupyx.scipy.special"]).update({name: writing(getattr(scipy.special, name)) for name in FUNCTIONS})
    return made
