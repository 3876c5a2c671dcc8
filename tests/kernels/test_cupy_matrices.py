"""Where factorisations on CuPy fail, and blocks beyond the small sizes of the table of ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import stowgrad
from stowgrad import linalg

from ..fake_cupy.places import PLACES, cupy_at


@pytest.fixture(scope="module", params=PLACES)
def cuda(request: pytest.FixtureRequest) -> Iterator[str]:
    with cupy_at(request.param):
        yield "cuda:0"


SINGULAR = np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 4.0]])])


def test_a_singular_matrix_is_counted(cuda: str) -> None:
    inverse, info = linalg.inv_ex(stowgrad.tensor(SINGULAR, device=cuda))
    assert info.cpu().tolist() == [0, 2]
    assert inverse[0].cpu().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.solve(
            stowgrad.tensor(SINGULAR, device=cuda), stowgrad.ones(2, 2, 2, dtype=stowgrad.float64, device=cuda)
        )


@pytest.mark.parametrize("upper", [False, True])
def test_the_minor_that_is_not_positive_is_counted(cuda: str, upper: bool) -> None:
    x = stowgrad.tensor(np.stack([np.diag([4.0, 9.0]), np.diag([1.0, -1.0])]), device=cuda)
    factor, info = linalg.cholesky_ex(x, upper=upper)
    assert info.cpu().tolist() == [0, 2]
    assert factor[0].cpu().tolist() == [[2.0, 0.0], [0.0, 3.0]]


def test_the_first_zero_of_lu_is_counted(cuda: str) -> None:
    assert linalg.lu_factor_ex(stowgrad.tensor(SINGULAR, device=cuda)).info.cpu().tolist() == [0, 2]


def test_large_systems(cuda: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 70, 70)), rng.normal(size=(70, 3))
    on_cuda = [stowgrad.tensor(x, device=cuda) for x in (a, b)]
    solved = linalg.lu_solve(*linalg.lu_factor(on_cuda[0]), on_cuda[1])
    np.testing.assert_allclose(a @ solved.cpu().numpy(), np.broadcast_to(b, (2, 70, 3)), atol=1e-8)
    p, left, right = linalg.lu(on_cuda[0])
    np.testing.assert_allclose((p @ left @ right).cpu().numpy(), a, atol=1e-10)


def test_reflections(cuda: str) -> None:
    x = np.random.default_rng(2).normal(size=(2, 5, 3))
    factors, tau = stowgrad.geqrf(stowgrad.tensor(x, device=cuda))
    q = linalg.householder_product(factors, tau).cpu().numpy()
    np.testing.assert_allclose(q @ np.triu(factors.cpu().numpy())[:, :3], x, atol=1e-12)


def test_values_alone(cuda: str) -> None:
    x = np.random.default_rng(3).normal(size=(4, 4))
    on_cuda = stowgrad.tensor(x, device=cuda)
    np.testing.assert_allclose(linalg.svdvals(on_cuda).cpu().numpy(), np.linalg.svd(x, compute_uv=False))
    np.testing.assert_allclose(linalg.eigvalsh(on_cuda).cpu().numpy(), np.linalg.eigvalsh(x))
    np.testing.assert_allclose(
        np.sort_complex(linalg.eigvals(on_cuda).cpu().numpy()), np.sort_complex(np.linalg.eigvals(x))
    )
    assert linalg.qr(on_cuda, "r").R.shape == (4, 4)
