"""Ops as functions of the top level, a file a family; most are methods of tensors, too."""

from __future__ import annotations

from inspect import isfunction as _isfunction

from .activation import *
from .arrange import *
from .comparison import *
from .complex import *
from .convolution import *
from .copies import *
from .counting import *
from .distances import *
from .dropout import *
from .elementwise import *
from .exponential import *
from .extremes import *
from .fused import *
from .in_place import *
from .index import *
from .integer import *
from .join import *
from .linalg import *
from .lowrank import *
from .matrices import *
from .normalization import *
from .pooling import *
from .random import *
from .reduce import *
from .rounding import *
from .scan import *
from .scattering import *
from .segments import *
from .shape import *
from .soft import *
from .sorting import *
from .special import *
from .spectrum import *
from .statistics import *
from .trigonometric import *
from .views import *
from .vision import *

__all__ = sorted(name for name, value in globals().items() if _isfunction(value) and not name.startswith("_"))
