"""Optimizers and learning-rate schedules.

A step is ``loss.backward()``, ``optimizer.step()``, ``optimizer.zero_grad()``. Gradients add up until they are cleared,
so a batch that does not fit into memory may come in parts, each loss weighted by its share:

>>> import stowgrad
>>> model = stowgrad.nn.Linear(3, 1)
>>> optimizer = SGD(model.parameters(), lr=0.1)
>>> data = stowgrad.randn(12, 3)
>>> for part in data.split(4):
...     ((model(part) ** 2).mean() * (len(part) / len(data))).backward()
>>> optimizer.step()
>>> optimizer.zero_grad()

What an optimizer keeps is counted in the category ``"optimizer_state"``: for each element of a parameter in float32 8
bytes with `AdamW`, 2.03 with `AdamW8bit`, next to nothing for matrices with `Adafactor`, 4 with momentum, none with
plain `SGD`. `in_backward` saves the memory of gradients, `master_weights` half of that of 16-bit parameters and their
gradients. `swa_utils` has averages of models: as many bytes again as the model, kept where you put them.
"""

from __future__ import annotations

from . import lr_scheduler, swa_utils
from .adafactor import Adafactor
from .adamw import Adam, AdamW
from .adamw_8bit import AdamW8bit
from .adaptive import Adadelta, Adagrad, Adamax, RMSprop
from .in_backward import in_backward
from .lbfgs import LBFGS
from .master_weights import master_weights
from .nadam import NAdam, RAdam
from .optimizer import Optimizer
from .rprop import ASGD, Rprop
from .sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamW8bit",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "in_backward",
    "lr_scheduler",
    "master_weights",
    "swa_utils",
]
