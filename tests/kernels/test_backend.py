from __future__ import annotations

import numpy as np
import pytest

from stowgrad.kernels import backend, numpy_


def test_the_host_devices_share_the_numpy_kernels() -> None:
    assert backend("cpu") is numpy_
    assert backend("sim") is numpy_


def test_an_unknown_device_type_is_named() -> None:
    with pytest.raises(ValueError, match="no kernels for device type 'meta'; there are some for cpu, sim, cuda"):
        backend("meta")


@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 3)),
        ((3, 4), (4, 5)),
        ((0, 4), (4, 5)),
        ((3, 0), (0, 5)),
        ((2, 1, 3, 4), (7, 4, 5)),
        ((70, 3, 50, 40), (3, 40, 60)),
        ((2, 300, 300), (2, 300, 300)),
        ((5, 3, 4), (4,)),
    ],
)
def test_matmul(shape_a: tuple[int, ...], shape_b: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = rng.standard_normal(shape_a), rng.standard_normal(shape_b)
    expected = np.asarray(a @ b)
    for left in (a, np.ascontiguousarray(a.T).T, np.repeat(a, 2, -1)[..., ::2]):
        for right in (b, np.ascontiguousarray(b.T).T):
            out = np.empty(expected.shape)
            numpy_.matmul(left, right, out)
            np.testing.assert_allclose(out, expected, atol=1e-11)
