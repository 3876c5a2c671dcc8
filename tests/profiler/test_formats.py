"""Reports as JSON and as text."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import jsonschema
import pytest

from stowgrad.profiler import (
    Boundary,
    DeviceUse,
    Hint,
    Holder,
    LiveBlock,
    MemoryReport,
    Overhead,
    Peak,
    PeakAt,
    PhasePeak,
    ProfileFormatError,
    Resident,
    Saved,
    SavedRow,
    Site,
    json_format,
    memory_profile,
    render,
)
from stowgrad.profiler.text import grouped

MIB = 1 << 20
SITE = Site("train.py", 91, "main")


def block(number, mib, category, name, *holder, module="", op="", site=None):
    held = Holder(*holder, site=site) if holder else Holder("unknown", "")
    return LiveBlock(number, mib * MIB, category, name, module, op, site, 0, "forward", (held,))


def row(module, op, slot, mib, policy="keep", resident=None):
    kept = mib if resident is None else resident
    return SavedRow(module, op, slot, policy, 1, mib * MIB, kept * MIB, 0, 15_000_000, 16_000_000, 1)


@pytest.fixture
def report():
    """Three steps of a GPT, made up."""
    at = PeakAt(5_000, "CrossEntropyBackward0", "loss", SITE)
    live = (
        block(1, 64, "activation", "logits 2048x8192 float32", "python", "local variable", module="head", site=SITE),
        block(2, 64, "temporary", "unpacked log_probs", "engine", "until CrossEntropyBackward0 ends", site=SITE),
        block(3, 12, "parameter", "wte.weight", "module", "parameter wte.weight"),
        block(4, 6, "saved_packed", "packed", "saved_tensor", "softmax: output", module="blocks.0.attn"),
    )
    categories = {"activation": 64 * MIB, "parameter": 12 * MIB, "saved_packed": 6 * MIB, "temporary": 64 * MIB}
    phases = tuple(
        PhasePeak("cpu", 2, phase, begin, begin + 5000, 4000, 12 * MIB, peak * MIB, {"activation": peak * MIB}, at)
        for begin, (phase, peak) in enumerate([("forward", 140), ("backward", 146), ("optimizer", 100)])
    )
    rows = (
        row("blocks.0.attn", "softmax", "output", 72, "fp16", 36),
        row("blocks.1.attn", "softmax", "output", 72, "fp16", 36),
        row("loss", "cross_entropy", "log_probs", 64),
    )
    return MemoryReport(
        version="0.1.0",
        command=("python", "train.py", "--steps", "3"),
        started="2026-01-02T03:04:05+00:00",
        duration_ns=6_600_000_000,
        record="ledger",
        steps=3,
        devices=(DeviceUse("cpu", 146 * MIB, 1 << 34), DeviceUse("sim:0", 7 * MIB, None, 9 * MIB)),
        phases=phases,
        peak=Peak("cpu", 2, "backward", 146 * MIB, at, categories, live),
        saved=Saved(2, 3, 208 * MIB, 136 * MIB, 0, 45_000_000, 48_000_000, rows),
        overhead=Overhead(1713, 3_100_000, 161 << 10),
        boundary=Boundary(2, 130 * MIB, 208 * MIB, 136 * MIB, 146 * MIB),
        resident=Resident(210 * MIB, 146 * MIB, 3 * MIB, 211 * MIB, 9),
        exit_code=0,
        options={"record": "ledger"},
    )


def test_text_at_100_columns(report):
    expected = """\
memprof 0.1.0   python train.py --steps 3   3 steps, 6.6 s
overhead: 1,713 events, 3.1 ms (0.05% of the run), 161.0 KiB

PEAK  146.0 MiB  on cpu, step 2, BACKWARD, in loss: CrossEntropyBackward0
      train.py:91
      on sim:0: 7.0 MiB
      the limit of sim:0 is 9.0 MiB
      tracked 146.0 MiB + pool slack 3.0 MiB + untracked 61.0 MiB = RSS 210.0 MiB (peak 211.0 MiB)

PHASE              starts at       peak       added   sec  peak in (worst of 3 steps)
  forward (cpu)     12.0 MiB  140.0 MiB  +128.0 MiB  0.00  loss: CrossEntropyBackward0
  backward (cpu)    12.0 MiB  146.0 MiB  +134.0 MiB  0.00  loss: CrossEntropyBackward0 <- PEAK
  optimizer (cpu)   12.0 MiB  100.0 MiB   +88.0 MiB  0.00  loss: CrossEntropyBackward0

FORWARD ENDS (step 2)   live 130.0 MiB   saved 208.0 MiB -> 136.0 MiB   backward +16.0 MiB
"""
    assert render(report).startswith(expected)


def test_text_of_what_was_live_and_saved(report):
    text = render(report, top=2)
    assert (
        """
LIVE AT THE PEAK     bytes  share  largest
  activation      64.0 MiB  43.8%  head: logits 2048x8192 64.0 MiB
  temporary       64.0 MiB  43.8%  unpacked log_probs 64.0 MiB
  parameter       12.0 MiB   8.2%  wte.weight 12.0 MiB
  saved_packed     6.0 MiB   4.1%  blocks.0.attn: packed 6.0 MiB
"""
        in text
    )
    assert "64.0 MiB  activation  head: logits 2048x8192  local variable (train.py:91)" in text
    text = render(report, top=2, width=120)
    assert "engine, until CrossEntropyBackward0 ends (train.py:91)" in text
    assert "  18.0 MiB in 2 more (memprof report --blocks all)" in text
    assert (
        """
SAVED FOR BACKWARD (step 2)   3 values   208.0 MiB -> 136.0 MiB   pack 45ms   unpack 48ms
  module         op: slot                  n        raw  resident  policy  pack  unpack
  blocks.*.attn  softmax: output           2  144.0 MiB  72.0 MiB  fp16    30ms    32ms
  loss           cross_entropy: log_probs  1   64.0 MiB  64.0 MiB  keep    15ms    16ms"""
        in text
    )


@pytest.mark.parametrize("width", [1, 60, 80, 98, 120, 200])
def test_no_line_is_wider_than_asked_for(report, width):
    text = render(report, width=width)
    assert max(map(len, text.splitlines())) <= max(width, 60)
    assert text.isascii()
    assert ("added" in text) == (width >= 98)


def test_names_that_are_no_ascii_are_escaped(report):
    assert "gr\\xf6\\xdfe.py" in render(replace(report, command=("python", "größe.py")))


def test_of_a_long_op_the_slot_stays_visible(report):
    long = row("blocks.0.attn", "scaled_dot_product_attention_with_everything", "query", 1)
    lines = render(replace(report, saved=replace(report.saved, rows=(long,))), width=80).splitlines()
    assert next(line for line in lines if "scaled" in line).split("  ")[2].endswith(": query")


def test_blocks_that_differ_in_a_number_are_one_row_unless_all_are_shown(report):
    more = tuple(
        block(10 + n, 10, "activation", "linear 8x8 float32", "saved_tensor", "gelu: self", module=f"blocks.{n}.up")
        for n in range(3)
    )
    state = tuple(
        block(20 + n, 4, "optimizer_state", name, "optimizer", "state of AdamW")
        for n, name in enumerate(("blocks.0.up.weight.exp_avg", "blocks.0.up.weight.exp_avg_sq"))
    )
    live = (*report.peak.live, *more, *state)
    text = render(replace(report, peak=replace(report.peak, live=live)))
    assert "  30.0 MiB  3  activation       blocks.*.up: linear 8x8         saved by gelu: self" in text
    assert "   8.0 MiB  2  optimizer_state  blocks.*.up.weight.exp_avg, ..  state of AdamW" in text
    every = render(replace(report, peak=replace(report.peak, live=live)), top=None)
    assert every.count("saved by gelu: self") == 3
    assert "blocks.2.up: linear 8x8" in every


@pytest.mark.parametrize(
    ("width", "held"),
    [
        (160, "saved by scaled_dot_product_attention: query (package/model.py:123)"),
        (98, "saved by scaled_dot_product_attention: query (model.py:123)"),
        (70, "saved by scaled_dot_product_attention: query"),
    ],
)
def test_what_does_not_fit_of_a_holder_is_left_out_in_turn(report, width, held):
    site = Site("package/model.py", 123, "forward")
    one = block(1, 146, "activation", "linear 8x8", "saved_tensor", "scaled_dot_product_attention: query", site=site)
    text = render(replace(report, peak=replace(report.peak, live=(one,))), width=width)
    assert next(line for line in text.splitlines() if "saved by" in line).endswith(f"  {held}")


@pytest.mark.parametrize("width", [80, 100])
def test_a_variable_is_named_with_its_line_also_where_there_is_little_room(report, width):
    site = Site("package/train_kept.py", 9, "step")
    name = "CrossEntropyBackward0 1024x4096 float64"
    one = block(1, 146, "activation", name, "python", "local variable 'logits'", module="head", site=site)
    text = render(replace(report, peak=replace(report.peak, live=(one,))), width=width)
    assert "local variable 'logits' (train_kept.py:9)" in text


def test_values_that_share_memory_say_so(report):
    shared = replace(row("loss", "linear", "input", 64, resident=0), shared_bytes=64 * MIB)
    text = render(replace(report, saved=replace(report.saved, rows=(shared,))))
    assert "loss    linear: input  1  64.0 MiB    shared  keep" in text


def test_what_is_offloaded_has_a_column_where_there_is_room(report):
    row_ = replace(row("loss", "linear", "input", 64, "disk", 0), offloaded_bytes=64 * MIB)
    report = replace(report, saved=replace(report.saved, rows=(row_,), offloaded_bytes=64 * MIB))
    assert "op: slot       n       raw  resident  offloaded  policy" in render(report)
    assert "offloaded  policy" not in render(report, width=80)
    assert "offloaded 64.0 MiB" in render(report, width=80)


def test_sizes_stay_whole_where_lines_are_broken(report):
    hint = Hint("checkpoint", "word " * 13 + "about peak 50.3 MiB -> 28.9 MiB (backward).", 5, 2)
    text = render(replace(report, hints=(hint,)), width=80)
    assert "peak\n      50.3 MiB -> 28.9 MiB (backward)." in text


def test_exact_bytes(report):
    assert "PEAK  153,092,096  on cpu" in render(report, exact=True)


def test_modules_that_differ_in_a_number_are_one_row():
    rows = [row(name, "gelu", "input", 1) for name in ("h.0.mlp", "h.11.mlp", "h2.0.mlp", "0", "13", "a1")]
    assert [(r.module, r.count) for r in grouped(rows)] == [("*", 2), ("h.*.mlp", 2), ("a1", 1), ("h2.*.mlp", 1)]


def test_json_conforms_to_the_schema_and_comes_back(report):
    schema = json.loads(json_format.schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json_format.dump(report)))
    assert json_format.load(json_format.dump(report)) == report


def test_what_a_real_recording_writes_conforms(tmp_path):
    with memory_profile() as prof:
        pass
    prof.to_json(tmp_path / "p.json")
    data = json.loads((tmp_path / "p.json").read_text())
    jsonschema.Draft202012Validator(json.loads(json_format.schema_text())).validate(data)
    assert str(prof).startswith("memprof ")


def test_unknown_keys_are_ignored(report):
    data = json_format.to_dict(report)
    data["new"] = data["peak"]["new"] = data["phases"][0]["new"] = 1
    assert json_format.from_dict(data) == report


def test_only_required_keys_are_needed(report):
    data = json_format.to_dict(report)
    del data["boundary"], data["resident"], data["steps"]
    for phase in data["phases"]:
        del phase["active_ns"], phase["by_category"]
    for one in data["saved"]["rows"]:
        del one["n"], one["offloaded_bytes"]
    found = json_format.from_dict(data)
    assert found.boundary is found.resident is None
    assert found.peak == report.peak


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
        (b"\xff\xfe\x00", "this is no JSON"),
        ("[]", "this is no memory profile"),
        ('{"schema": 3}', 'this is no memory profile: its "schema" is 3'),
        ('{"schema": "stowgrad.memprof/2"}', "use a newer memprof"),
        ('{"schema": "stowgrad.memprof/1"}', "damaged: key 'frames' is missing"),
    ],
)
def test_foreign_files_are_refused(text, message):
    with pytest.raises(ProfileFormatError, match=message):
        json_format.load(text)


def test_every_damage_is_an_error_of_the_format(report):
    """Each value replaced in turn by one of a wrong type: read as if it fits, or refused, but never anything else."""

    def places(value, path=()):
        yield path
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield from places(inner, (*path, key))

    data = json_format.to_dict(report)
    refused = 0
    for path in list(places(data))[1:]:
        for wrong in (None, -1, "x", [1], {"a": 1}):
            damaged = copy.deepcopy(data)
            inner = damaged
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong
            try:
                render(json_format.from_dict(damaged))
            except ProfileFormatError:
                refused += 1
    assert refused > 500


def test_a_profile_that_does_not_add_up_is_refused(report):
    data = json_format.to_dict(report)
    data["peak"]["live"].pop()
    with pytest.raises(ProfileFormatError, match="is not the sum of its categories and of its blocks"):
        json_format.from_dict(data)
