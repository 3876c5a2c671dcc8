"""Linear algebra: what nodes keep, which errors are raised, and what is computed where there are no values."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad import linalg


def leaf(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=sizes)
    return stowgrad.tensor(x + 4 * np.eye(*sizes[-2:]) if len(sizes) > 1 else x, requires_grad=True)


def kept(node):
    """What a node keeps, by name."""
    return {slot.name for slot, value in zip(node.record.saves, node.saved_variables, strict=True) if value is not None}


KEPT = {
    "inv": (linalg.inv, {"inverse"}),
    "cholesky": (linalg.cholesky, {"L"}),
    "qr": (lambda x: linalg.qr(x).Q, {"Q", "R"}),
    "svd": (lambda x: linalg.svd(x).S, {"U", "S", "Vh"}),
    "svdvals": (linalg.svdvals, {"A"}),
    "eigvalsh": (linalg.eigvalsh, {"A"}),
    "eigh": (lambda x: linalg.eigh(x).eigenvalues, {"eigenvalues", "eigenvectors"}),
    "lu_factor": (lambda x: linalg.lu_factor(x).LU, {"LU", "pivots"}),
    "det": (linalg.det, {"A", "result"}),
    "matrix_exp": (linalg.matrix_exp, {"self"}),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_result_is_kept_where_it_will_do(name):
    function, expected = KEPT[name]
    x = stowgrad.tensor(np.eye(3) * 2, requires_grad=True)
    assert kept(function(x).grad_fn) == expected


def test_a_solution_that_only_its_right_side_asks_for_keeps_the_matrix_alone():
    a, b = leaf(3, 3).detach(), leaf(3, 2, seed=1)
    assert kept(linalg.solve(a, b).grad_fn) == {"A"}
    assert kept(linalg.solve_triangular(a, b, upper=True).grad_fn) == {"self"}


@pytest.mark.parametrize("needs", [(True, False), (False, True)])
def test_a_product_keeps_the_other_operand(needs):
    x, y = (leaf(3, 3, seed=n).detach().requires_grad_(needed) for n, needed in enumerate(needs))
    assert kept(stowgrad.einsum("ij,jk->ki", x, y).grad_fn) == ({"other"} if needs[0] else {"self"})


def test_addmm_keeps_nothing_of_its_input():
    x = leaf(3, 3)
    result = stowgrad.addmm(x, leaf(3, 3).detach(), leaf(3, 3).detach(), beta=2)
    assert kept(result.grad_fn) == set()
    result.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 3


def test_einsum_forms_no_products_of_all_labels():
    x, y = (stowgrad.zeros(64, 64, requires_grad=True) for _ in range(2))
    with stowgrad.memory.pool("cpu").peak_scope() as peak:
        stowgrad.einsum("ij,jk->ik", x, y).sum().backward()
    assert peak.peak_bytes - peak.begin_bytes < 8 * 64 * 64 * 4


def test_a_gradient_over_a_batch_is_summed_while_it_is_multiplied():
    x, w = stowgrad.rand(400, 1, 30, requires_grad=True), stowgrad.rand(30, 40, requires_grad=True)
    out = (x @ w).sum()
    with stowgrad.memory.pool("cpu").peak_scope() as peak:
        out.backward()
    assert peak.peak_bytes - peak.begin_bytes < 400 * 30 * 40  # a quarter of the products
    np.testing.assert_allclose(w.grad.numpy(), np.broadcast_to(x.detach().numpy().sum((0, 1))[:, None], (30, 40)), 1e-5)


# -- errors ------------------------------------------------------------------------------------------------------------

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
FAILING = {
    "inv": (linalg.inv, r"diagonal element 2 is zero"),
    "inverse": (lambda a: a.inverse(), r"diagonal element 2 is zero"),
    "solve": (lambda a: linalg.solve(a, a), r"singular"),
    "cholesky": (lambda a: linalg.cholesky(-a), r"leading minor of order 1"),
    "lu_factor": (linalg.lu_factor, r"U\[2,2\] is zero"),
    "inv_ex": (lambda a: linalg.inv_ex(a, check_errors=True), r"linalg\.inv_ex.*singular"),
    "matrix_power": (lambda a: linalg.matrix_power(a, -2), r"singular"),
    "svd": (lambda a: linalg.svd(a * float("nan")), r"non-finite"),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_has_no_solution_raises_lin_alg_error(name):
    function, text = FAILING[name]
    with pytest.raises(linalg.LinAlgError, match=text):
        function(stowgrad.tensor(SINGULAR))
    assert issubclass(linalg.LinAlgError, RuntimeError)


def test_the_matrix_of_a_batch_that_failed_is_named():
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\)"):
        linalg.inv(stowgrad.tensor(np.stack([np.eye(2), SINGULAR])))


def test_info_tells_what_failed():
    inverse, info = linalg.inv_ex(stowgrad.tensor(np.stack([np.eye(2), SINGULAR])))
    assert info.tolist() == [0, 2]
    assert inverse[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_failure_leaves_nothing_behind():
    x = stowgrad.tensor(SINGULAR, requires_grad=True)
    before = stowgrad.memory.pool("cpu").used_bytes()
    with pytest.raises(linalg.LinAlgError):
        linalg.inv(x)
    assert stowgrad.memory.pool("cpu").used_bytes() == before


def test_phases_that_a_loss_depends_on_are_refused():
    a = np.array([[2.0, 1j, 0.5], [-1j, 3.0, 0.2], [0.5, 0.2, 4.0]])
    x = stowgrad.tensor(a, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"linalg_eigh_backward.*phi"):
        stowgrad.imag(linalg.eigh(x).eigenvectors).sum().backward()


def test_r_alone_has_no_gradient():
    with pytest.raises(RuntimeError, match="mode='reduced'"):
        linalg.qr(leaf(3, 3), "r").R.sum().backward()


def test_a_complete_q_of_a_tall_matrix_has_no_gradient():
    with pytest.raises(RuntimeError, match="nrows > ncols"):
        linalg.qr(leaf(4, 3), "complete").R.sum().backward()


# -- where there are no values -----------------------------------------------------------------------------------------

ON_META = {
    "inv": lambda a, b: linalg.inv(a),
    "solve": linalg.solve,
    "solve_triangular": lambda a, b: linalg.solve_triangular(a, b, upper=False),
    "cholesky": lambda a, b: linalg.cholesky(a),
    "det": lambda a, b: linalg.det(a),
    "slogdet": lambda a, b: linalg.slogdet(a).logabsdet,
    "qr": lambda a, b: linalg.qr(b).Q,
    "svd": lambda a, b: linalg.svd(b).S,
    "eigh": lambda a, b: linalg.eigh(a).eigenvectors,
    "eig": lambda a, b: stowgrad.real(linalg.eig(a).eigenvectors),
    "lu": lambda a, b: linalg.lu(a).U,
    "lstsq": lambda a, b: linalg.lstsq(a, b).solution,
    "pinv": lambda a, b: linalg.pinv(b),
    "matrix_exp": lambda a, b: linalg.matrix_exp(a),
    "cond": lambda a, b: linalg.cond(a, 1),
    "matrix_norm": lambda a, b: linalg.matrix_norm(b, "nuc"),
    "einsum": lambda a, b: stowgrad.einsum("bij,bjk->kb", a, b),
}


@pytest.mark.parametrize("name", ON_META)
def test_the_meta_device_knows_shapes(name):
    a, b = leaf(2, 3, 3), leaf(2, 3, 2)
    spd = stowgrad.tensor((a @ a.mT).detach().numpy(), requires_grad=True)
    expected = ON_META[name](spd, b)
    on_meta = [x.detach().to("meta").requires_grad_() for x in (spd, b)]
    found = ON_META[name](*on_meta)
    assert (found.shape, found.dtype, found.device.type) == (expected.shape, expected.dtype, "meta")
    found.sum().backward()
    expected.sum().backward()
    grads = [None if x.grad is None else x.grad.shape for x in on_meta]
    assert grads == [None if x.grad is None else x.grad.shape for x in (spd, b)]


# -- into tensors that the caller has ----------------------------------------------------------------------------------


def test_results_are_written_into_out():
    a = leaf(3, 3).detach()
    u, s, vh = (stowgrad.empty(0, dtype=stowgrad.float64) for _ in range(3))
    assert linalg.svd(a, out=(u, s, vh))[1] is s
    np.testing.assert_allclose((u * s @ vh).numpy(), a.numpy(), atol=1e-12)
    out = stowgrad.empty(3, 3, dtype=stowgrad.float64)
    assert stowgrad.mm(a, a, out=out) is out
    np.testing.assert_allclose(out.numpy(), (a @ a).numpy())


def test_products_are_written_in_place():
    x, y = leaf(3, 3).detach(), leaf(3, 3, seed=1).detach()
    expected = (2 * x + x @ y).numpy()
    assert x.addmm_(x, y, beta=2) is x
    np.testing.assert_allclose(x.numpy(), expected)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        stowgrad.ones(3, dtype=stowgrad.float64).addmm_(x, y)


# -- points where formulas need care -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, float("inf")])
def test_a_norm_of_zero_has_a_gradient_of_zero(order):
    x = stowgrad.zeros(3, requires_grad=True)
    linalg.vector_norm(x, order).backward()
    assert x.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("order", [2, 3])
def test_the_second_derivative_at_a_norm_of_zero_is_zero(order):
    x = stowgrad.zeros(3, dtype=stowgrad.float64, requires_grad=True)
    (first,) = stowgrad.autograd.grad(linalg.vector_norm(x, order), x, create_graph=True)
    (second,) = stowgrad.autograd.grad(first.sum(), x)
    assert second.tolist() == [0.0] * 3


def test_equal_singular_values_leave_the_values_gradient_finite():
    x = stowgrad.tensor(np.eye(3), requires_grad=True)
    linalg.svdvals(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3))


def test_a_determinant_of_rank_two_less_has_no_slope():
    x = stowgrad.tensor(np.diag([1.0, 0.0, 0.0]), requires_grad=True)
    linalg.det(x).backward()
    assert not x.grad.numpy().any()
