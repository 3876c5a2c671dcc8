"""The kernels on NumPy: for the CPU and for the `sim` device."""

from __future__ import annotations

from inspect import isfunction as _isfunction

from .activation import *
from .along import *
from .arrange import *
from .attention import *
from .attention_dropout import *
from .attention_mask import *
from .bits import *
from .channel_norm import *
from .channels import *
from .composed import *
from .convolution import *
from .ctc import *
from .distance import *
from .distributions import *
from .dropout import *
from .elementwise import *
from .embedding import *
from .embedding_bag import *
from .error_function import *
from .fft import *
from .fold import *
from .fused_loss import *
from .gamma_slope import *
from .gated import *
from .gelu import *
from .grid_sample import *
from .index import *
from .index_at import *
from .interpolation import *
from .lapack import *
from .linalg import *
from .linear import *
from .loss import *
from .marks import *
from .nll_loss import *
from .norm import *
from .optim import *
from .optim_8bit import *
from .optim_adaptive import *
from .optim_factored import *
from .optim_scaling import *
from .piecewise import *
from .pointwise_loss import *
from .pooling import *
from .products import *
from .random import *
from .ranges import *
from .reduce import *
from .response_norm import *
from .rotary import *
from .row_numbers import *
from .scan import *
from .scatter import *
from .smooth import *
from .soft_loss import *
from .softmax import *
from .sort import *
from .special import *
from .strided import *
from .topk import *
from .triangular import *
from .variance import *
from .vector_norm import *
from .window_pooling import *

__all__ = sorted(name for name, value in globals().items() if _isfunction(value) and not name.startswith("_"))
