"""`PolicyConformance`: what every storage policy must do, as a class of tests to be subclassed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from ..autograd.creation import tensor
from ..autograd.grad_mode import no_grad
from ..autograd.ops.promotion import bfloat16
from ..memory import memory_allocated, storage_of
from ..saved_tensors import INTERFACE_VERSION, Policy, SavedValue
from .values import DTYPES, SHAPES, filled, lease, views


class PolicyConformance:
    """A class of tests for a policy; subclass it, say how the policy is made, and let pytest or unittest collect it.

    Attributes:
        exact: whether values must come back bit for bit.
        rtol: otherwise, the largest error relative to the largest number of a value.
        devices: where the values are.
        dtypes: of the values.
        interface: the version of the policy interface that these tests are for.

    A policy that leaves a value alone passes: what it packs must come back. `test_it_packs_something` fails for one
    that leaves all values alone; ``packs`` says on which devices it is to pack something.

    >>> from stowgrad.saved_tensors import Compress
    >>> class TestZstd(PolicyConformance):
    ...     def make_policy(self):
    ...         return Compress("zstd", min_bytes=0)
    >>> TestZstd().test_two_backwards_through_a_retained_graph()
    """

    exact: ClassVar[bool] = True
    rtol: ClassVar[float] = 0.0
    devices: ClassVar[tuple[str, ...]] = ("cpu", "sim:0")
    packs: ClassVar[tuple[str, ...]] = ("cpu", "sim:0")
    dtypes: ClassVar[tuple[Any, ...]] = (*DTYPES, bfloat16)
    interface: ClassVar[int] = INTERFACE_VERSION

    def make_policy(self) -> Policy:
        """A new policy that packs values of any size.

        Raises:
            NotImplementedError: unless a subclass defines it.
        """
        raise NotImplementedError("PolicyConformance: define make_policy(self), which returns a new policy")

    def settle(self, policy: Policy) -> None:
        """Wait for what the policy does in the background, before memory is counted; nothing by default."""

    # -- values --------------------------------------------------------------------------------------------------------

    def test_every_dtype_and_shape(self) -> None:
        """Arrays of every dtype, of none, one and several dimensions, empty and not, come back."""
        for device in self.devices:
            for dtype in self.dtypes:
                for shape in SHAPES:
                    self._comes_back(filled(lease(shape, dtype, device)), device)

    def test_views_of_any_strides(self) -> None:
        """Steps, transposes, reversals, windows and expanded views come back with the strides that they had."""
        for device in self.devices:
            for dtype in self.dtypes:
                for view in views(filled(lease((12, 10, 6), dtype, device))):
                    self._comes_back(view, device)

    def test_numbers_that_are_none(self) -> None:
        """NaN, infinities, signed zeros, subnormal and extreme numbers come back; bit for bit from exact policies."""
        for device in self.devices:
            for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
                info = np.finfo(dtype)
                odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, info.smallest_subnormal, info.tiny, info.max, info.min]
                array = lease((len(odd) * 40,), dtype, device)
                array[...] = np.array(odd * 40, dtype)
                got = self._load(self.make_policy(), array, device)
                if got is None:
                    continue
                same = got.tobytes() == array.tobytes() if self.exact else (np.isnan(got) == np.isnan(array)).all()
                _check(same, f"{dtype} on {device}: numbers such as NaN, infinity or -0.0 have changed")

    def test_constant_arrays(self) -> None:
        """Arrays of zeros, and of the same number, come back."""
        for device in self.devices:
            for number in (0, 1):
                array = lease((3000,), np.dtype(np.float32), device)
                array[...] = number
                self._comes_back(array, device)

    def test_it_packs_something(self) -> None:
        """Among many values there is one that it doesn't leave alone."""
        for device in self.packs:
            policy = self.make_policy()
            arrays = [filled(lease((3000,), dtype, device)) for dtype in self.dtypes]
            arrays.append(lease((30_000,), np.dtype(np.float32), device))
            arrays[-1][...] = 0
            handles = [_save(policy, array, f"op {number}") for number, array in enumerate(arrays)]
            _check(any(handle is not None for handle in handles), f"it packed nothing on {device}: {policy.describe()}")

    # -- graphs --------------------------------------------------------------------------------------------------------

    def test_gradients(self) -> None:
        """The gradients of a small program are those without the policy."""
        for device in self.devices:
            expected = _gradients(device)
            with self.make_policy():
                self._near(_gradients(device), expected, f"gradients on {device}")

    def test_two_backwards_through_a_retained_graph(self) -> None:
        """What was packed can be unpacked again."""
        for device in self.devices:
            x = _leaf(device)
            with self.make_policy():
                y = _program(x).sum()
            y.backward(retain_graph=True)
            once = x.grad.cpu().numpy().copy()
            y.backward()
            _check(bool((x.grad.cpu().numpy() == 2 * once).all()), f"on {device}: the second pass differs")

    def test_second_derivatives(self) -> None:
        """Unpacked values have the history of those that were saved."""
        for device in self.devices:
            expected = _second(device)
            with self.make_policy():
                self._near(_second(device), expected, f"second derivatives on {device}")

    def test_a_value_that_is_written_after_it_was_saved(self) -> None:
        """The gradient is that of the old value, or there is an error: never that of the new one."""
        for device in self.devices:
            x = _leaf(device)
            with self.make_policy():
                h = x * 2
                y = (h * h).sum()
            with no_grad():
                h.fill_(100)
            try:
                y.backward()
            except RuntimeError as error:
                _check("modified by an inplace operation" in str(error), f"on {device}: an unclear error: {error}")
            else:
                self._near(x.grad.cpu().numpy(), 8 * x.detach().cpu().numpy(), f"after a write, on {device}")

    # -- failures, leaks, threads --------------------------------------------------------------------------------------

    def test_an_exception_inside_leaves_nothing_behind(self) -> None:
        """The context is left, and what was packed is freed."""
        for device in self.devices:
            policy = self.make_policy()
            with self._no_leak(policy, device):
                try:
                    with policy:
                        _program(_leaf(device))
                        raise KeyError("mine")
                except KeyError:
                    pass

    def test_memory_is_freed_without_the_collector(self) -> None:
        """What is packed dies with the graph that needs it, used or not."""
        for device in self.devices:
            policy = self.make_policy()
            with self._no_leak(policy, device):
                x = _leaf(device)
                with policy:
                    unused = _program(x)
                    used = _program(x).sum()
                del unused
                used.backward()
                del used, x

    def test_reading_saved_values_by_hand(self) -> None:
        """A saved value that is read between forward and backward is the value; backward comes as if it weren't."""
        for device in self.devices:
            x = _leaf(device)
            with self.make_policy():
                h = x * 2
                y = h * h
            peek = y.grad_fn._saved_self
            self._near(peek.detach().cpu().numpy(), h.detach().cpu().numpy(), f"a saved value on {device}")
            y.sum().backward()
            self._near(x.grad.cpu().numpy(), 8 * x.detach().cpu().numpy(), f"gradients on {device}")

    def test_threads(self) -> None:
        """Several threads may save and load through one policy at once."""
        policy = self.make_policy()
        for device in self.devices:
            expected = _gradients(device)
            found: list[Any] = []

            def work(device: str = device, found: list[Any] = found) -> None:
                for _ in range(3):
                    with policy:
                        found.append(_gradients(device))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            _check(len(found) == 12, f"on {device}: a thread failed")
            for gradients in found:
                self._near(gradients, expected, f"gradients of a thread on {device}")

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _load(self, policy: Policy, array: Any, device: str) -> Any:
        """What comes back of an array, compared in shape, dtype, strides and device; None if it was left alone."""
        handle = _save(policy, array)
        if handle is None:
            return None
        got = handle.load()
        expected = (array.shape, array.dtype, array.strides)
        _check(
            (got.shape, got.dtype, got.strides) == expected,
            f"on {device}: expected shape, dtype and strides {expected}, got {(got.shape, got.dtype, got.strides)}",
        )
        storage = storage_of(got)
        _check(storage is not None and str(storage.device) == device, f"a value of {device} came back elsewhere")
        return got

    def _comes_back(self, array: Any, device: str) -> None:
        got = self._load(self.make_policy(), array, device)
        if got is not None:
            what = f"{array.dtype} {list(array.shape)}, strides {array.strides}, on {device}"
            if self.exact or array.dtype.kind not in "fc":
                _check(got.tobytes() == array.tobytes(), f"{what}: the bits have changed")
            else:
                self._near(got, array, what)

    def _near(self, got: Any, expected: Any, what: str) -> None:
        if self.exact:
            _check(got.tobytes() == expected.tobytes(), f"{what}: not equal bit for bit")
            return
        scale = float(np.abs(expected).max(initial=0.0))
        error = float(np.abs(np.subtract(got, expected)).max(initial=0.0))
        _check(error <= self.rtol * scale, f"{what}: error {error:.3g}, allowed {self.rtol:g} of {scale:.3g}")

    @contextmanager
    def _no_leak(self, policy: Policy, device: str) -> Iterator[None]:
        """Compare the bytes of the device and of the host before and after, with the collector off."""
        gc.collect()
        gc.disable()
        try:
            self.settle(policy)
            before = memory_allocated(device), memory_allocated("cpu")
            yield
            self.settle(policy)
            after = memory_allocated(device), memory_allocated("cpu")
            # what came before may have ended something meanwhile, in the background
            _check(
                after[0] <= before[0] and after[1] <= before[1],
                f"bytes on {device} and cpu: {before} before, {after} after",
            )
            live = policy.statistics().live_count
            _check(live == 0, f"on {device}: {live} packed values are still alive")
        finally:
            gc.enable()


def _check(holds: bool, message: str) -> None:
    """An assertion that tells what was wrong wherever it is collected.

    Raises:
        AssertionError: if it doesn't hold.
    """
    if not holds:
        raise AssertionError(message)


def _save(policy: Policy, array: Any, op: str = "op") -> Any:
    storage = storage_of(array)
    assert storage is not None
    return policy.save(SavedValue(array, storage, op, "self"), ())


def _leaf(device: str) -> Any:
    values = np.random.default_rng(0).standard_normal((30, 20))
    return tensor(values, device=device, requires_grad=True)


def _program(x: Any) -> Any:
    """Ops that save inputs, outputs, masks, views with gaps and an expanded value."""
    h = x * 1.5
    y = (h.sin() * h).exp() * h.t().cos().t() + h.relu() * h.abs()
    return y[:, 3:9] * y[:, 6:12] + (h[0] * h)[:, ::4].sum() + y[:, :1]


def _gradients(device: str, program: Callable[[Any], Any] = _program) -> Any:
    x = _leaf(device)
    program(x).sum().backward()
    return x.grad.cpu().numpy().copy()


def _second(device: str) -> Any:
    from ..autograd.backward import grad

    x = _leaf(device)
    h = x * 1.5
    (first,) = grad((h * h * h).sum(), x, create_graph=True)
    return grad((first * first).sum(), x)[0].cpu().numpy().copy()
