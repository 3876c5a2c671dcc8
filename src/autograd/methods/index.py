"""Choosing elements by indices and masks, as methods; ``x[...]`` itself is in `stowgrad.autograd.indexing`."""

from __future__ import annotations


class IndexMethods:
    """Choosing elements, and scattering into them."""

    __slots__ = ()
