from __future__ import annotations

import dataclasses
import gc
import threading
import time

import numpy as np
import pytest
from hypothesis import given

from stowgrad.memory import pool, storage_of
from stowgrad.saved_tensors import Cast, Compress, Policy, PolicyEntry, Stage, saved_tensors_hooks
from stowgrad.saved_tensors.codecs import Compact, PackBits, Zstd
from stowgrad.saved_tensors.hooks import policies_inside, policies_outside
from stowgrad.saved_tensors.state import current

from .support import assert_same, leased, save, saved, views


def copying(**options):
    """A policy whose packed form is a plain copy."""
    return Policy(Compact(), **options)


def packed_bytes():
    return pool("cpu").bytes_by_category()["saved_packed"]


@pytest.fixture(autouse=True, scope="module")
def after_the_others():
    """What writers of earlier tests still hold is not counted here."""
    gc.collect()
    end = time.monotonic() + 2.0
    while packed_bytes() and time.monotonic() < end:
        time.sleep(0.01)


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# -- what comes back ---------------------------------------------------------------------------------------------------


@given(views())
def test_any_view_comes_back_with_its_bits_and_strides(view):  # case B8
    policy = copying()
    handle = save(policy, view)
    if not view.size:
        assert handle is None
        return
    assert_same(handle.load(), view)
    assert handle.load().ctypes.data % 64 == view.ctypes.data % 64
    assert handle.resident_bytes == packed_bytes() <= view.nbytes


@given(views())
def test_any_view_comes_back_through_a_pipeline_of_codecs(view):
    handle = save(Compress(min_bytes=0) | copying(), view)
    if handle is not None:
        assert_same(handle.load(), view)


def test_what_is_loaded_lies_in_the_pool_of_its_device(device):
    array = leased(np.arange(100.0), device)
    handle = save(copying(), array)
    loaded = handle.load()
    storage = storage_of(loaded)
    assert str(storage.device) == device
    assert storage.category == "temporary"
    assert storage_of(loaded) is not storage_of(array)
    before = pool(device).used_bytes()
    del loaded
    assert pool(device).used_bytes() == before - storage.nbytes


def test_the_value_at_save_time_comes_back_after_a_write():  # case A3
    array = leased(np.arange(100.0))
    handle = save(copying(), array)
    array += 100
    storage_of(array).version += 1
    assert handle.load()[1] == 1
    assert save(copying(), array).load()[1] == 101


def test_a_write_is_a_new_version_that_is_packed_anew():
    policy = copying()
    array = leased(np.arange(100.0))
    first = save(policy, array)
    array += 1
    storage_of(array).version += 1
    second = save(policy, array)
    assert second.resident_bytes == 800
    assert (first.load()[0], second.load()[0]) == (0, 1)


def test_a_write_to_what_was_loaded_reaches_no_later_load():
    handle = save(copying(), leased(np.arange(100.0)))
    first = handle.load()
    first += 1
    storage_of(first).version += 1
    assert handle.load()[0] == 0


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_views_of_one_extent_are_packed_once():  # P7, cases B1, B4
    policy = copying()
    h = leased(np.arange(12.0).reshape(3, 4))
    views = [h, h.T, h.reshape(2, 6), h[1:], h[:, 1], np.broadcast_to(h, (5, 3, 4)), h[::-1], h.view(np.int64)]
    handles = [save(policy, view) for view in views]
    assert packed_bytes() == h.nbytes
    assert [handle.resident_bytes for handle in handles] == [h.nbytes] + [0] * 7
    assert len({handle.shares for handle in handles}) == 1
    for view, handle in zip(views, handles):
        assert_same(handle.load(), view)
    figures = policy.statistics()
    assert (figures.count, figures.shared, figures.raw_bytes, figures.resident_bytes) == (1, 7, 96, 96)


def test_views_loaded_together_lie_in_one_memory():
    policy = copying()
    h = leased(np.arange(1000.0).reshape(50, 20))
    handles = [save(policy, view) for view in (h, h.T)]
    before = pool("cpu").used_bytes()
    loaded = [handle.load() for handle in handles]
    assert np.shares_memory(*loaded)
    assert pool("cpu").used_bytes() == before + h.nbytes


def test_interleaved_views_with_gaps_are_packed_apart_and_loaded_together():
    policy = copying()
    qkv = leased(np.arange(600.0).reshape(20, 30))
    thirds = [qkv[:, 10 * i : 10 * i + 10] for i in range(3)]
    handles = [save(policy, third) for third in thirds]
    assert packed_bytes() == qkv.nbytes
    before = pool("cpu").used_bytes()
    loaded = [handle.load() for handle in handles]
    for third, got in zip(thirds, loaded):
        assert_same(got, third)
    assert pool("cpu").used_bytes() == before + qkv.nbytes


def test_a_small_view_of_a_big_storage_takes_its_own_bytes():  # P7, case C4
    big = leased(np.zeros((1000, 1000)))
    assert save(copying(), big[0, :2]).resident_bytes == 16
    assert save(copying(min_bytes="64 KiB"), big[:5, 0]).resident_bytes == 40
    assert save(copying(min_bytes="64 KiB"), leased(np.zeros(5))) is None


def test_an_expanded_value_is_stored_at_its_real_size():  # P7, spec 12.3
    row = leased(np.arange(10.0))
    handle = save(copying(), np.broadcast_to(row, (1000, 10)))
    assert handle.resident_bytes == 80
    assert handle.load().strides == (0, 8)


def test_sharing_keeps_nothing_alive(without_gc):  # cases A14, B3
    policy = copying()
    h = leased(np.arange(1000.0))
    handle, other = save(policy, h), save(policy, h[:10])
    storage = storage_of(h)
    del h
    assert storage() is None
    del handle
    assert packed_bytes() == 8000
    assert other.load()[9] == 9
    del other
    assert packed_bytes() == 0
    assert policy.statistics().live_count == 0


def test_two_policies_do_not_share():
    h = leased(np.arange(100.0))
    handles = [save(copying(), h), save(copying(), h)]
    assert [handle.resident_bytes for handle in handles] == [800, 800]


def test_an_integer_view_of_rounded_floats_stays_exact():  # case D4
    policy = Cast("bfloat16", min_bytes=0)
    floats = leased(np.linspace(0, 1, 100, dtype=np.float32))
    rounded = save(policy, floats)
    assert rounded.resident_bytes == 200
    assert save(policy, floats.view(np.int32)) is None


def test_a_small_part_of_a_lossy_piece_is_not_rounded_by_sharing():
    policy = Cast("bfloat16", min_bytes="1 KiB")
    floats = leased(np.linspace(0, 1, 1000, dtype=np.float32))
    rounded = save(policy, floats)
    assert rounded.policy == "bfloat16"
    assert save(policy, floats[:10]) is None


def test_threads_that_save_and_load_one_value_agree():
    policy = copying()
    h = leased(np.arange(10000.0))
    wrong = []

    def work():
        for _ in range(50):
            handle = save(policy, h)
            if handle.load()[-1] != 9999:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert packed_bytes() == 0


# -- what is left alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("category", ["parameter", "buffer"])
def test_parameters_and_their_views_are_kept_unless_asked(category):  # P7, case B5
    weight = leased(np.zeros((10, 20)), category=category)
    for view in (weight, weight.T, weight[2:5]):
        assert save(copying(), view) is None
        assert save(copying(parameters=True), view) is not None


def test_meta_values_and_empty_ones_are_kept():
    array, _ = pool("meta").lease((1000, 1000), np.dtype(np.float32), "activation")
    assert save(copying(), array) is None
    assert save(copying(), leased(np.zeros((0, 3)))) is None


def test_where_restricts_by_size_dtype_op_and_slot():
    policy = copying()
    floats, small, ints = leased(np.zeros(1000)), leased(np.zeros(3)), leased(np.zeros(1000, np.int64))
    assert save(policy.where(min_bytes="1 KiB"), floats) is not None
    assert save(policy.where(min_bytes="1 KiB"), small) is None
    assert save(policy.where(dtype="float64"), ints) is None
    assert save(policy.where(dtype=[np.int64, "float32"]), ints) is not None
    assert save(policy.where(op="mul"), floats, op="mul") is not None
    assert save(policy.where(op=["mul", "exp"]), floats, op="add") is None
    assert save(policy.where(op=lambda name: name.startswith("m")), floats, op="mul") is not None
    assert save(policy.where(slot="other"), floats, slot="self") is None
    both = policy.where(op="mul").where(slot="self")
    assert save(both, floats, op="mul") is not None
    assert save(both, floats, op="mul", slot="other") is None
    assert both.describe() == "copy where op mul, slot self"


# -- composition -------------------------------------------------------------------------------------------------------


class Recording(Stage):
    """A stage that copies, and writes down that it did."""

    def __init__(self, name, log, lossy=False):
        self.name, self.log, self.lossy = name, log, lossy

    def pack(self, payload, site):
        self.log.append(f"pack {self.name} {site.op}.{site.slot}")
        return payload.then(self, tuple(buffer.copy() for buffer in payload.buffers), payload.place)

    def unpack(self, payload, outs):
        self.log.append(f"unpack {self.name}")
        for out, buffer in zip(outs, payload.buffers):
            out[...] = buffer


def test_stages_pack_left_to_right_and_unpack_right_to_left():  # case A9
    log = []
    a, b, c = (Policy(Recording(name, log)) for name in "abc")
    handle = save(a | b | c, leased(np.zeros(10)), "mul", "self")
    assert handle.policy == "a | b | c"
    handle.load()
    assert log == ["pack a mul.self", "pack b mul.self", "pack c mul.self", "unpack c", "unpack b", "unpack a"]


def test_in_nested_contexts_the_inner_policy_comes_first():
    log = []
    a, b, c = (Policy(Recording(name, log)) for name in "abc")
    handle = save(a, leased(np.zeros(10)), outer=(b, c))
    assert handle.policy == "a | b | c"
    assert [policy.statistics().count for policy in (a, b, c)] == [1, 1, 1]
    assert handle.policy == save(a | b, leased(np.zeros(10)), outer=(c,)).policy


def test_a_policy_that_is_active_twice_acts_once():
    log = []
    policy = Policy(Recording("a", log))
    assert save(policy, leased(np.zeros(10)), outer=(policy,)).policy == "a"


def test_contexts_are_scopes_of_the_hook_stack():
    policy, other = copying(), copying()
    with policy as entered, other:
        assert entered is policy
        assert current().hooks[-2:] == (policy, other)
    assert current().hooks == ()
    policy.__enter__()
    other.__enter__()
    with pytest.raises(RuntimeError, match="out of order"):
        policy.__exit__()
    other.__exit__()
    policy.__exit__()


def test_what_a_policy_declines_goes_to_an_entry_of_another_kind_outside():
    class Pager(PolicyEntry):
        def save(self, value, outer):
            return ("paged", value.slot, outer)

    pager, outermost = Pager(), copying()
    array = leased(np.zeros(10))
    assert Compress().save(saved(array), (pager, outermost)) == ("paged", "self", (outermost,))
    assert copying().save(saved(array), (pager,)).policy == "copy"


def test_raw_hooks_are_no_stage():
    with pytest.raises(TypeError, match="unsupported operand"):
        copying() | saved_tensors_hooks(id, id)
    with pytest.raises(TypeError, match="expected stages, got Compress"):
        Policy(Compress())


def test_a_failing_stage_leaves_nothing_behind(without_gc):  # case A19
    class Full(Stage):
        def pack(self, payload, site):
            raise OSError("full")

    policy = copying() | Policy(Full())
    array = leased(np.arange(100.0))
    with pytest.raises(OSError, match="full"):
        save(policy, array)
    assert packed_bytes() == 0
    assert array[99] == 99
    assert policy.statistics().count == policy.statistics().live_count == 0


# -- reports -----------------------------------------------------------------------------------------------------------


def test_describe_names_the_stages_and_the_bound_of_lossy_ones():
    policy = Cast("bfloat16") | Compress("zstd", level=3, min_bytes=0).where(dtype=["float32", bool])
    assert policy.describe() == (
        "bfloat16 (lossy: relative error at most 2**-8) where at least 4.0 KiB"
        " | zstd, level 3 where dtype float32 or bool"
    )
    assert repr(copying()) == "<Policy: copy>"
    assert Policy().describe() == "keep"


def test_statistics_are_a_frozen_snapshot():
    policy = copying()
    before = policy.statistics()
    array = leased(np.arange(100.0))
    handle = save(policy, array)
    save(policy.where(op="other"), array)
    save(policy, leased(np.zeros((0,))))
    handle.load()
    after = policy.statistics()
    assert (before.count, after.count, after.kept, after.loads) == (0, 1, 1, 1)
    assert dict(after.where) == {"cpu": 800}
    assert after.live_resident_bytes == 800
    assert after.pack_seconds > 0
    assert after.unpack_seconds > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.count = 3
    del handle
    assert policy.statistics().live_resident_bytes == 0
    assert policy.statistics().resident_bytes == 800


def test_stage_classes_have_names():
    assert [stage.name for stage in (PackBits(), Zstd(), Compact())] == ["packbits", "zstd", "copy"]


def test_policies_outside_a_raw_pair_are_shadowed():
    inside, outside, outermost = copying(), copying(), copying()
    raw = saved_tensors_hooks(id, id)
    assert policies_inside((outermost, raw, outside, inside)) == (inside, outside)
    assert policies_outside((outermost, raw, outside, inside)) == (outermost,)
    assert policies_outside((outermost, outside, raw)) == (outermost, outside)
    assert policies_outside((outermost, inside)) == ()
    outermost.shadow()
    assert outermost.statistics().shadowed == 1
