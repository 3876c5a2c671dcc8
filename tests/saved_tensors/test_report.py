"""What a policy says it did, and the policy that is active by default."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stowgrad
from stowgrad.offload import save_on_disk
from stowgrad.saved_tensors import (
    INTERFACE_VERSION,
    Cast,
    Compress,
    Policy,
    SavedValue,
    Stage,
    set_default_policy,
    state,
)
from stowgrad.saved_tensors.codecs import Compact

from .support import leased, save


def x(size=1000):
    return stowgrad.tensor(np.linspace(-1, 1, size), requires_grad=True)


def test_each_call_site_has_a_row():
    policy = Policy(Compact(), min_bytes="4 KiB")
    with policy:
        h = x() * 2
        y = h.sin()
        z = h[:3].cos() + y[:3]
    (y.sum() + z.sum()).backward()
    rows = {site.op: site for site in policy.report().sites}
    assert rows["sin"].did == {"copy": 1}
    assert (rows["sin"].raw_bytes, rows["sin"].packed_bytes, rows["sin"].loads) == (8000, 8000, 2)
    assert rows["sin"].line.startswith("saved_tensors/test_report.py:")
    assert rows["sin"].pack_seconds > 0
    assert rows["sin"].unpack_seconds > 0
    assert rows["cos"].shared == 1
    assert rows["sin"].outcome == "copy"


def test_what_is_left_alone_is_counted_with_the_reason():
    policy = Cast(min_bytes="4 KiB")
    weight = x()
    weight._storage.pool.relabel(weight._storage, "parameter")
    index = stowgrad.tensor(np.arange(1000))
    with policy:
        h = x() * 2
        (h * weight)[index].sum()
        h[:5].clone().sin()
    assert dict(policy.statistics().kept_because) == {
        "parameter or buffer": 1,
        "small": 1,
        "not worth it": 1,  # the index
    }
    assert policy.statistics().kept == 3
    assert "kept: parameter or buffer" in str(policy.report())


def test_what_had_no_effect_is_said():
    policy = Compress(min_bytes="1 KiB", parameters=True).where(op="no_such_op")
    assert policy.report().without_effect == ("nothing was saved",)
    with policy:
        (x() * 2).sin()
    text = str(policy.report())
    assert "packbits where op no_such_op: nothing met it" in text
    assert "packbits: packed none of the 0 values that it was for" in text
    assert "parameters=True: nothing lay in a parameter or buffer" in text


def test_conditions_that_refuse_nothing_are_said_to():
    policy = Policy(Compact()).where(op="sin", min_bytes=1)
    with policy:
        (x() * 2).sin()
    assert set(policy.report().without_effect) == {
        "copy where at least 1 B: refused nothing",
        "copy where op sin: refused nothing",
    }


def test_parts_of_a_composition_count_for_themselves():
    first, second = Compress("zstd", min_bytes=0), save_on_disk(min_bytes=0, in_memory=True)
    both = first | second
    with both:
        (x() * 0).sin()
    assert first.report().sites == ()
    assert both.report().sites[0].did == {"zstd | disk": 1}


def test_stages_of_another_version_are_refused():
    class Old(Stage):
        interface = INTERFACE_VERSION - 1

    with pytest.raises(TypeError, match=f"version {INTERFACE_VERSION - 1} of the interface"):
        Policy(Old())


def test_the_number_of_call_sites_is_bounded(monkeypatch):
    monkeypatch.setattr("stowgrad.saved_tensors.statistics._MOST_SITES", 3)
    policy = Policy(Compact())
    for number in range(10):
        save(policy, leased(np.zeros(3)), op=f"op {number}")
    assert len(policy.report().sites) == 4
    assert sum(site.values for site in policy.report().sites) == 10


def test_a_saved_value_may_stay_alive_anyway():
    array = leased(np.zeros(10))
    policy = Policy(Compact())
    storage = stowgrad.memory.storage_of(array)
    assert policy.save(SavedValue(array, storage, "op", "self", alive=True), ()) is None
    asked = Policy(Compact(), parameters=True)
    assert asked.save(SavedValue(array, storage, "op", "self", alive=True), ()) is not None


# -- the default -------------------------------------------------------------------------------------------------------


@pytest.fixture
def default():
    before = state.current()
    policy = Policy(Compact())
    set_default_policy(policy)
    yield policy
    set_default_policy(None)
    assert state.current().hooks == ()
    state.set_state(before)


def test_a_default_policy_is_active_in_all_threads(default):
    def work():
        (x() * 2).sin().sum().backward()

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert default.statistics().count == 2


def test_a_default_policy_stands_outside_of_others(default):
    inner = Policy(Compact())
    with inner:
        (x() * 2).sin()
    assert inner.statistics().count == default.statistics().count == 1
    with stowgrad.no_grad(), stowgrad.enable_grad():
        (x() * 2).sin()
    assert default.statistics().count == 2


def test_a_default_policy_is_replaced(default):
    other = Policy(Compact())
    set_default_policy(other)
    (x() * 2).sin()
    assert (default.statistics().count, other.statistics().count) == (0, 1)


def test_only_a_policy_can_be_the_default():
    with pytest.raises(TypeError, match="expected a policy or None, got str"):
        set_default_policy("zstd")
