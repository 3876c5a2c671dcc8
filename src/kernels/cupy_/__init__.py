"""The kernels on CuPy: the names and signatures of the kernels on NumPy. Importing this imports CuPy."""

from __future__ import annotations

from inspect import isfunction as _isfunction

from .activation import *
from .attention import *
from .bits import *
from .dropout import *
from .elementwise import *
from .embedding import *
from .index import *
from .linalg import *
from .linear import *
from .loss import *
from .norm import *
from .optim import *
from .random import *
from .reduce import *
from .softmax import *

__all__ = sorted(name for name, value in globals().items() if _isfunction(value) and not name.startswith("_"))
