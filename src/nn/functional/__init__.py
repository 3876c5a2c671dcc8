"""Functions of neural networks with PyTorch's names and arguments, by family; each says what it keeps for backward."""

from __future__ import annotations

from inspect import isfunction as _isfunction
from sys import modules as _modules

from ...autograd.entries import offer as _offer
from ._checks import check_probability as check_probability
from ._checks import check_reduction as check_reduction
from .activation import *
from .attention import *
from .bilinear import *
from .class_loss import *
from .classes import *
from .convolution import *
from .ctc import *
from .distance import *
from .dropout import *
from .embedding import *
from .likelihood_loss import *
from .linear import *
from .loss import *
from .margin_loss import *
from .multi_head import *
from .normalization import *
from .padding import *
from .pooling import *
from .sequence import *
from .shuffle import *
from .vision import *

__all__ = sorted(
    name for name, value in globals().items() if _isfunction(value) and not name.startswith(("_", "check_"))
)

_offer(_modules[__name__])  # before the modules, some of which keep a function, and are pickled with it
