"""Phases, steps, ops, modules, names and saved values, from events that the tests send themselves."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest

from stowgrad import profiler
from stowgrad.memory import events, pool
from stowgrad.profiler import memory_profile
from stowgrad.saved_tensors.hooks import SavedRecord
from stowgrad.saved_tensors.state import Under

BYTE = np.dtype(np.uint8)
DEVICE = "sim:100"
span = events.span


@pytest.fixture(autouse=True)
def a_device_of_its_own():
    """What an earlier test left alive (the traceback of a failed one) does not count here."""
    global DEVICE
    kind, number = DEVICE.split(":")
    DEVICE = f"{kind}:{int(number) + 1}"


def lease(nbytes, category="activation"):
    return pool(DEVICE).lease((nbytes,), BYTE, category)


class Tensor:
    """What the profiler looks at of a tensor."""

    def __init__(self, nbytes, category="parameter"):
        self._array, self._storage = lease(nbytes, category)
        self.grad = None


class Module:
    """What the profiler looks at of a module."""

    def __init__(self, parameters=(), **children):
        self.parameters, self.children = dict(parameters), children

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}".strip("."))

    def named_parameters(self):
        for path, module in self.named_modules():
            for name, tensor in module.parameters.items():
                yield f"{path}.{name}".strip("."), tensor

    def named_buffers(self):
        return ()


class Adam:
    def __init__(self, state):
        self.state = state


class Node:
    def __init__(self, number):
        self.sequence_nr = number


@contextmanager
def module(subject):
    with span("module", type(subject).__name__, subject):
        yield


def tell(what, *arguments):
    for observer in events.observers:
        getattr(observer, what)(*arguments)


def save(array, storage, op="gelu", slot="input", **changes):
    record = SavedRecord(op, slot, array, storage)
    for name, value in changes.items():
        setattr(record, name, value)
    tell("saved", record)
    return record


def phases(report):
    return [(p.step, p.phase) for p in report.phases if p.device == DEVICE]


# -- phases and steps --------------------------------------------------------------------------------------------------


def test_a_training_loop_falls_into_setup_forward_backward_optimizer():
    model = Module()
    with memory_profile() as prof:
        weight = lease(100, "parameter")
        for _ in range(2):
            with module(model):
                hidden = lease(50)
            with span("phase", "backward"):
                gradient = lease(30, "gradient")
                with span("phase", "recompute"):
                    again = lease(70)
                del again
                del hidden
            with span("phase", "optimizer"):
                del gradient
    report = prof.report()
    names = ["setup", "forward", "backward", "recompute", "other", "optimizer"]
    assert phases(report) == [*((0, name) for name in names), *((1, name) for name in names), (2, "setup")]
    peaks = {p.phase: (p.begin_bytes, p.peak_bytes) for p in report.phases if p.step == 1}
    assert peaks == {
        "setup": (100, 100),
        "forward": (100, 150),
        "backward": (150, 250),  # what was recomputed lives on in it
        "recompute": (180, 250),
        "other": (130, 130),
        "optimizer": (130, 130),
    }
    assert report.steps == 2
    assert (report.peak.device, report.peak.step, report.peak.phase, report.peak.nbytes) == (
        DEVICE,
        1,  # of equal steps the last
        "recompute",
        250,
    )
    assert report.worst("backward").peak_bytes == report.peak_bytes("backward") == 250
    assert report.peak_bytes() == report.peak_bytes(device=DEVICE) == 250
    assert report.worst("eval") is None
    assert report.peak_bytes("eval") == 0
    del weight


def test_a_module_without_gradients_is_evaluation():
    model = Module()
    with memory_profile() as prof:
        with module(model):
            lease(10)
        with Under(grad_enabled=False), module(model):
            lease(20)
    assert phases(prof.report()) == [(0, "forward"), (0, "eval")]


def test_the_first_recorded_op_begins_the_forward():
    with memory_profile() as prof:
        array, storage = lease(10)
        save(array, storage)
        other = lease(20)
    assert [(p.phase, p.peak_bytes) for p in prof.report().phases if p.device == DEVICE] == [
        ("setup", 10),
        ("forward", 30),
    ]
    del other


def test_steps_marked_by_hand_are_not_ended_by_optimizers():
    with memory_profile() as prof:
        for _ in range(2):
            with profiler.step():
                for _ in range(3):
                    with profiler.phase("optimizer"):
                        lease(10)
    report = prof.report()
    assert report.steps == 2
    assert [p.step for p in report.phases if p.phase == "optimizer"] == [0, 1]


def test_phases_marked_by_hand_win():
    with memory_profile() as prof, profiler.phase("eval"), module(Module()):
        lease(10)
    assert phases(prof.report())[0] == (0, "eval")


def test_an_unknown_phase_is_refused():
    with pytest.raises(ValueError, match=r"unknown phase 'foward'; expected one of setup, forward"):
        profiler.phase("foward")


def test_an_end_without_a_beginning_is_ignored():
    with memory_profile() as prof:
        for kind in ("op", "node", "phase", "module", "step"):
            tell("end", kind, "backward")
        lease(10)
    assert prof.report().steps == 0


def test_spans_that_an_exception_left_open_are_closed_with_the_outer_one():
    with memory_profile() as prof:
        with module(Module()):
            tell("begin", "op", "broken", None)
        lease(10)
    assert prof.report().peak.at.op == ""


# -- where -------------------------------------------------------------------------------------------------------------


def test_the_peak_names_op_module_and_line():
    inner = Module()
    model = Module(blocks=Module(mlp=inner))
    with memory_profile() as prof, module(model), module(inner), span("op", "gelu"):
        block = lease(99)
    at = prof.report().peak.at
    assert (at.op, at.module) == ("gelu", "blocks.mlp")
    assert (at.site.file, at.site.name) == ("tests/profiler/test_recorder.py", "lease")
    live = prof.report().peak.live[0]
    assert (live.op, live.module, live.category, live.nbytes) == ("gelu", "blocks.mlp", "activation", 99)
    assert live.name == "gelu 99 uint8"
    assert live.site == at.site
    del block


def test_the_outermost_module_goes_by_its_class_and_unregistered_ones_by_theirs():
    found = []
    stranger, model = Module(), Module()
    with memory_profile() as prof:
        with module(model):
            lease(10)
            found.append(prof.report().peak.at.module)
            with module(stranger):
                lease(20)
                found.append(prof.report().peak.at.module)
    assert found == ["Module", "Module.Module"]


def test_a_submodule_called_alone_before_its_model_gets_its_path_afterwards():
    inner = Module()
    model = Module(inner=inner)
    with memory_profile() as prof:
        with module(inner):
            lease(10)
        assert prof.report().peak.at.module == "Module"
        with module(model), module(inner):
            lease(20)
        with module(inner):  # as a checkpoint does it, when it recomputes
            lease(30)
    assert prof.report().peak.at.module == "inner"


def test_backward_takes_module_and_line_from_the_forward_op():
    inner = Module()
    model = Module(inner=inner)
    node = Node(5)
    with memory_profile() as prof:
        with module(model), module(inner):
            tell("recorded", node)
            line = prof.report().duration_ns  # any statement: the line above is what counts
        with span("phase", "backward"), span("node", "GeluBackward0", node), span("op", "mul"):
            block = lease(99)
    at = prof.report().peak.at
    assert (at.op, at.module) == ("GeluBackward0", "inner")
    assert at.site.name == "tell"
    assert line >= 0
    del block


def test_an_optimizer_names_itself_its_state_and_the_gradients():
    weight = Tensor(100)
    model = Module({"weight": weight})
    optimizer = Adam({})
    with memory_profile() as prof:
        with module(model):
            pass
        with span("phase", "backward"):
            weight.grad = Tensor(100, "gradient")
        with span("phase", "optimizer", optimizer):
            optimizer.state[weight] = {"exp_avg": Tensor(100, "optimizer_state"), "step": 1}
            scratch = lease(1000, "optimizer_temporary")
    report = prof.report()
    assert report.peak.at.op == "Adam.step"
    assert {b.name: (b.category, b.held_by[0].kind, b.held_by[0].what) for b in report.peak.live} == {
        "weight": ("parameter", "module", "parameter of Module"),
        "weight.grad": ("gradient", "module", "gradient of Module"),
        "weight.exp_avg": ("optimizer_state", "optimizer", "state of Adam"),
        "Adam.step 1000 uint8": ("optimizer_temporary", "optimizer", "temporary of Adam"),
    }
    assert report.peak.by_category == {
        "parameter": 100,
        "gradient": 100,
        "optimizer_state": 100,
        "optimizer_temporary": 1000,
    }
    del scratch


def test_worker_threads_of_ours_work_for_the_latest_span():
    array = []
    with memory_profile() as prof, span("op", "gelu"):
        thread = threading.Thread(target=pool(DEVICE).lease, args=((9,), BYTE))
        thread.start()
        thread.join()
        array.append(1)
    assert prof.report().peak.at.op == "gelu"


def test_relabelling_moves_bytes_between_categories():
    with memory_profile() as prof:
        array, storage = lease(10, "temporary")
        pool(DEVICE).relabel(storage, "parameter")
        other = lease(5)
    assert prof.report().peak.by_category == {"parameter": 10, "activation": 5}
    del array, other


def test_the_main_device_is_the_accelerator():
    with memory_profile() as prof:
        host, _ = pool("cpu").lease((5000,), BYTE)
        block = lease(10)
    report = prof.report()
    assert report.peak.device == DEVICE
    assert report.peak_bytes(device="cpu") >= 5000
    del host, block


def test_watching_keeps_nothing_alive():
    import weakref

    model, node = Module(), Node(1)
    watched = [weakref.ref(model), weakref.ref(node)]
    with memory_profile():
        with module(model):
            tell("recorded", node)
        with span("phase", "backward"), span("node", "X", node):
            pass
        del model, node
        assert [reference() for reference in watched] == [None, None]


# -- saved values ------------------------------------------------------------------------------------------------------


def test_saved_values_are_summed_by_module_op_slot_and_policy():
    model = Module(a=Module(), b=Module())
    with memory_profile() as prof:
        kept = []
        with module(model):
            for child in ("a", "a", "b"):
                with module(model.children[child]):
                    array, storage = lease(100)
                    kept.append(array)
                    save(array, storage)
            record = save(array, storage, slot="output", policy="fp16", resident_bytes=50, seconds=1e-6)
        with span("phase", "backward"):
            tell("unpacked", record, 2e-6)
            tell("unpacked", record, 1e-6)
    saved = prof.report().saved
    rows = {
        (r.module, r.op, r.slot, r.policy): (r.count, r.raw_bytes, r.resident_bytes, r.pack_ns, r.unpack_ns, r.unpacks)
        for r in saved.rows
    }
    assert rows == {
        ("a", "gelu", "input", "keep"): (2, 200, 200, 0, 0, 0),
        ("b", "gelu", "input", "keep"): (1, 100, 100, 0, 0, 0),
        ("Module", "gelu", "output", "fp16"): (1, 100, 50, 1000, 3000, 2),
    }
    assert (saved.count, saved.raw_bytes, saved.resident_bytes, saved.unpack_ns) == (4, 400, 350, 3000)


def test_memory_that_two_saves_share_is_resident_once_a_step():
    with memory_profile() as prof:
        array, storage = lease(100)
        for _ in range(2):
            save(array[:60], storage)
            save(array, storage, slot="other")
            with span("phase", "optimizer"):
                pass
    saved = prof.report().saved
    assert (saved.raw_bytes, saved.resident_bytes) == (160, 100)
    first, second = saved.rows  # the larger one first; both orders of saving
    assert {first.slot: first.shared_with, second.slot: second.shared_with} == {"other": 1, "input": None}
    assert (first.shape, first.dtype, first.shared_bytes) == ((100,), "uint8", 60)


def test_parameters_that_are_kept_cost_nothing():
    with memory_profile() as prof:
        array, storage = lease(100, "parameter")
        save(array, storage)
        save(array, storage, policy="recompute", resident_bytes=0)
    assert prof.report().saved.count == 0


def test_parameters_that_are_copied_count():
    with memory_profile() as prof:
        array, storage = lease(100, "parameter")
        save(array, storage, policy="disk", resident_bytes=0, offloaded_bytes=100)
        save(array, storage, policy="fp16", resident_bytes=50)
    saved = prof.report().saved
    assert (saved.count, saved.resident_bytes, saved.offloaded_bytes) == (2, 50, 100)


def test_what_recomputation_saves_is_not_counted_twice():
    with memory_profile() as prof:
        array, storage = lease(100)
        save(array, storage, policy="recompute", resident_bytes=0)
        with span("phase", "backward"), span("phase", "recompute"):
            save(array, storage)
    saved = prof.report().saved
    assert (saved.count, saved.raw_bytes, saved.resident_bytes) == (1, 100, 0)


def test_the_boundary_tells_what_forward_leaves():
    with memory_profile("peaks") as prof:
        for size in (10, 1000, 20):
            with module(Module()):
                array, storage = lease(size)
                save(array, storage)
            with span("phase", "backward"):
                lease(5)
            with span("phase", "optimizer"):
                del array, storage
    report = prof.report()
    boundary = report.boundary
    assert boundary.step == report.saved.step == report.peak.step == 1
    assert boundary.forward_end_bytes == 1000
    assert (boundary.saved_raw_bytes, boundary.saved_resident_bytes) == (1000, 1000)
    assert boundary.backward_peak_bytes == 1005
    assert report.saved.rows == ()  # mode peaks


def test_a_kept_block_names_who_saved_it():
    with memory_profile() as prof:
        array, storage = lease(100)
        save(array, storage)
    holders = [(holder.kind, holder.what) for holder in prof.report().peak.live[0].held_by]
    assert holders == [("python", "local variable 'array'"), ("saved_tensor", "gelu: input")]


# -- the context manager -----------------------------------------------------------------------------------------------


def test_what_is_live_before_counts_as_begin():
    before = lease(100)
    with memory_profile() as prof:
        lease(1)
    report = prof.report()
    assert report.worst("setup", DEVICE).peak_bytes == 101
    assert sum(block.nbytes for block in report.peak.live) == 101
    del before


def test_profiles_nest_and_overlap():
    first, second = memory_profile(), memory_profile()
    first.start()
    a = lease(10)
    second.start()
    b = lease(20)
    first.stop()
    c = lease(40)
    second.stop()
    second.stop()
    assert (first.report().peak.nbytes, second.report().peak.nbytes) == (30, 70)
    del a, b, c


def test_the_report_is_there_after_an_exception():
    prof = memory_profile()
    with pytest.raises(KeyError), prof:
        block = lease(10)
        raise KeyError
    assert prof.report().peak.nbytes == 10
    del block


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="unknown recording mode 'everything'; expected one of peaks, ledger"):
        memory_profile("everything")
    prof = memory_profile()
    with prof:
        pass
    with pytest.raises(RuntimeError, match="make a new one"):
        prof.start()


def test_an_empty_recording_is_a_report_too():
    report = memory_profile().report()
    assert report.peak.nbytes == 0
    assert "nothing was tracked" in profiler.render(report)
