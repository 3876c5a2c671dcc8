"""Diff, check, baselines, windows of steps, completion and the line of ``--watch``."""

from __future__ import annotations

import json
import re
import subprocess

import jsonschema
import numpy as np
import pytest

from stowgrad.cli import colour
from stowgrad.cli.budgets import Budget
from stowgrad.cli.watch import line
from stowgrad.memory import events, pool
from stowgrad.profiler import memory_profile

from .program import refused, run


@pytest.fixture
def two_profiles(script):
    """A profile of the script, and one of a version that needs a fifth more in backward."""
    other = script.parent / "more.py"
    other.write_text(script.read_text().replace("6_000_000", "8_200_000"))
    for name in ("train", "more"):
        code, _, err = run("run", "-q", "-o", f"{name}.json", f"{name}.py", cwd=script.parent)
        assert code == 0, err
    return script.parent


def test_diff_shows_what_grew(two_profiles):
    code, out, _ = run("diff", "train.json", "more.json", cwd=two_profiles)
    assert code == 0
    assert "PEAK   10.5 MiB -> 12.6 MiB   +2.1 MiB  +20.0%" in out
    assert "  backward   10.5 MiB  12.6 MiB  +2.1 MiB" in out
    assert "CATEGORY AT THE PEAK" in out


@pytest.mark.parametrize(("limit", "expected"), [("2%", 3), ("25%", 0), ("1MiB", 3), ("3MiB", 0)])
def test_diff_fails_above_a_limit(two_profiles, limit, expected):
    code, out, err = run("diff", "train.json", "more.json", "--fail-above", limit, cwd=two_profiles)
    assert code == expected
    assert ("backward grew by more than" in err) == (expected == 3)
    assert ("ok: no phase grew" in out) == (expected == 0)


def test_diff_as_json_holds_nothing_else(two_profiles):
    code, out, _ = run("diff", "train.json", "more.json", "--json", "--by", "phase", cwd=two_profiles)
    data = json.loads(out)
    assert code == 0
    assert data["schema"] == "stowgrad.memprof-diff/1"
    assert {row["by"] for row in data["rows"]} == {"peak", "phase"}
    backward = next(row for row in data["rows"] if row["name"] == "backward")
    assert (backward["before_bytes"], backward["after_bytes"]) == (11_000_000, 13_200_000)


def test_run_compares_with_a_baseline(two_profiles):
    code, out, err = run(
        "run", "--baseline", "train.json", "--fail-above", "2%", "-o", "now.json", "more.py", cwd=two_profiles
    )
    assert code == 3
    assert "memprof diff   2 steps each\n  old  train.json (" in out
    assert "peak grew by more than 2%" in err
    assert (two_profiles / "now.json").exists()


def test_check_holds_a_profile_against_budgets(two_profiles):
    assert run("check", "train.json", "--budget", "11MB", cwd=two_profiles)[:2] == (0, "ok: 1 budget kept\n")
    code, out, err = run("check", "more.json", "--budget", "1GiB", "--budget", "backward=11MB", cwd=two_profiles)
    assert (code, out) == (3, "")
    assert "> budget 10.5 MiB (+2.1 MiB, 20.0%) in backward on cpu" in err


def test_report_in_groups_by_phase_and_whole(two_profiles):
    assert "live at the peak, by line" in run("report", "train.json", "--group-by", "line", cwd=two_profiles)[1]
    out = run("report", "train.json", "--phase", "backward", cwd=two_profiles)[1]
    assert "BACKWARD OF STEP" in out
    assert " 1  cpu" in out
    assert run("report", "train.json", "--blocks", "all", cwd=two_profiles)[0] == 0


def test_some_steps_only_are_recorded(script):
    code, _, err = run("run", "-q", "--steps", "1:2", "-o", "p.json", "train.py", cwd=script.parent)
    assert code == 0, err
    phases = json.loads((script.parent / "p.json").read_text())["phases"]
    assert {phase["step"] for phase in phases} <= {1, 2}
    assert {phase["phase"] for phase in phases if phase["peak_bytes"]} >= {"forward", "backward"}


def test_every_event_is_recorded_when_asked_for(script):
    code, _, err = run("run", "-q", "--record", "all", "-o", "p.json", "train.py", cwd=script.parent)
    assert code == 0, err
    data = json.loads((script.parent / "p.json").read_text())
    totals = [sum(points) for points in zip(*data["timeline"]["by_category"].values(), strict=True)]
    assert max(totals) == data["peak"]["bytes"] == 11_000_000
    assert data["timeline"]["t_ns"] == sorted(data["timeline"]["t_ns"])
    jsonschema.validate(data, json.loads(run("schema", cwd=script.parent)[1]))


PLANTED = """\
import sys
import stowgrad
from stowgrad import nn, optim
from stowgrad.nn import functional as F

model = nn.Sequential(nn.Embedding(2048, 32), nn.Linear(32, 2048))
optimizer = optim.AdamW(model.parameters())
x = stowgrad.arange(0, 512)
for _ in range(3):
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits, x)
    if "mended" in sys.argv:
        del logits
    loss.backward()
    optimizer.step()
"""


def test_a_planted_regression_is_found_by_report_hint_and_diff(tmp_path):
    (tmp_path / "plant.py").write_text(PLANTED)
    assert run("run", "-q", "-o", "mended.json", "plant.py", "mended", cwd=tmp_path)[0] == 0
    code, out, _ = run("run", "-o", "plant.json", "plant.py", cwd=tmp_path)
    assert code == 0
    assert "variable 'logits' (plant.py:11)" in out
    data = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("plant", "mended")}
    hint = next(hint for hint in data["plant"]["hints"] if hint["code"] == "free-variable")
    assert "del logits before backward()" in hint["text"]
    assert hint["peak_before_bytes"] == data["plant"]["peak"]["bytes"]
    assert hint["peak_after_bytes"] == data["mended"]["peak"]["bytes"] < data["plant"]["peak"]["bytes"]
    code, _, err = run("diff", "mended.json", "plant.json", "--fail-above", "2%", cwd=tmp_path)
    assert code == 3
    assert "peak grew by more than 2%" in err


def test_diff_names_what_moved_and_what_another_policy_keeps(script):
    folder = script.parent
    (folder / "m.py").write_text(
        "import sys, contextlib, stowgrad\n"
        "from stowgrad.saved_tensors import Cast\n"
        "x = stowgrad.ones(1 << 18, requires_grad=True)\n"
        "with Cast('bfloat16') if sys.argv[1:] else contextlib.nullcontext():\n"
        "    y = x.exp().sin()\n"
        "y.sum().backward()\n"
    )
    run("run", "-q", "-o", "a.json", "m.py", cwd=folder)
    run("run", "-q", "-o", "b.json", "m.py", "cast", cwd=folder)
    code, out, _ = run("diff", "a.json", "b.json", cwd=folder)
    assert code == 0
    head = out.splitlines()
    assert head[0] == "memprof diff   0 steps each"
    assert head[1].startswith("  old  a.json (")
    assert head[1].endswith(")   python m.py")
    assert head[2].endswith(")   python m.py cast")
    assert "    peak moved: " in out
    line = next(line for line in out.splitlines() if line.startswith("  exp: result"))
    assert line.split()[2:8] == ["1.0", "MiB", "512.0", "KiB", "-512.0", "KiB"]
    assert line.endswith("keep -> bfloat16")
    assert "  in all 1.0 MiB -> 512.0 KiB   pack +" in out


@pytest.mark.parametrize(
    ("environment", "choice", "is_terminal", "expected"),
    [
        ({}, "auto", True, True),
        ({}, "auto", False, False),
        ({"NO_COLOR": "1"}, "auto", True, False),
        ({"NO_COLOR": ""}, "auto", True, True),
        ({"NO_COLOR": "1"}, "always", False, True),
        ({"FORCE_COLOR": "1"}, "auto", False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", True, False),
        ({"FORCE_COLOR": "1"}, "never", True, False),
        ({"PYTHON_COLORS": "0", "FORCE_COLOR": "1"}, "auto", True, False),
        ({"PYTHON_COLORS": "1", "NO_COLOR": "1"}, "auto", False, True),
        ({"TERM": "dumb"}, "auto", True, False),
    ],
)
def test_colour_is_chosen_as_python_chooses_it(monkeypatch, environment, choice, is_terminal, expected):
    for name in ("PYTHON_COLORS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    class Stream:
        def isatty(self):
            return is_terminal

    assert colour.has_colour(choice, Stream()) == expected


def test_colour_marks_the_peak_and_what_hints_promise():
    text = "PEAK  1 B\n  backward  1 B <- PEAK\n  1  del x: peak 2.0 MiB -> 1.5 MiB (forward).\nother"
    assert colour.painted(text) == (
        "\x1b[1mPEAK  1 B\x1b[0m\n\x1b[1;31m  backward  1 B <- PEAK\x1b[0m\n"
        "  1  del x: peak 2.0 MiB -> \x1b[32m1.5 MiB\x1b[0m (forward).\nother"
    )


def test_color_is_an_option_of_reports_and_checks(two_profiles):
    plain = run("report", "train.json", cwd=two_profiles)[1]
    painted = run("report", "train.json", "--color", "always", cwd=two_profiles)[1]
    assert "\x1b[" not in plain
    assert painted != plain == re.sub(r"\x1b\[[\d;]*m", "", painted)
    err = run("check", "train.json", "--budget", "1MiB", "--color", "always", cwd=two_profiles)[2]
    assert err.startswith("\x1b[1;31mmemprof: peak 10.5 MiB > budget 1.0 MiB")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_commands_and_options(tmp_path, shell):
    code, out, _ = run("completion", shell, cwd=tmp_path)
    assert code == 0
    for word in ("run", "report", "diff", "check", "record", "fail-above", "group-by", "peaks", "ledger"):
        assert word in out


def test_completion_works_in_bash(tmp_path):
    script = run("completion", "bash", cwd=tmp_path)[1]
    ask = "COMP_WORDS=(memprof run --rec); COMP_CWORD=2; _memprof; echo ${COMPREPLY[@]}"
    asked = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["--record"]
    ask = "COMP_WORDS=(memprof run --record le); COMP_CWORD=3; _memprof; echo ${COMPREPLY[@]}"
    asked = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["ledger"]


def test_the_line_of_watch_says_where_the_memory_is():
    with memory_profile() as prof, events.span("phase", "forward"):
        kept = pool("sim:90").lease((3 << 20,), np.dtype(np.uint8))
        text = line(prof, [Budget(None, 4 << 20)])
    assert text.startswith("step 0 | fwd 3.0 MiB | now 3.0 MiB | peak 3.0 MiB | budget 4.0 MiB [#######...] 75%")
    del kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "train.json"], "NEW"),
        (["diff", "-", "-"], "only one of the profiles can come from stdin"),
        (["diff", "a.json", "b.json", "--fail-above", "much"], "expected a size"),
        (["diff", "a.json", "b.json", "--fail-above", "x%"], "expected a share such as 2%"),
        (["diff", "a.json", "b.json", "--by", "phase,what"], "can't compare by 'what'"),
        (["check", "train.json"], "--budget"),
        (["run", "--steps", "3", "train.py"], "expected steps such as 2:5"),
        (["run", "--steps", "3:3", "train.py"], "no step lies in"),
        (["run", "--fail-above", "2%", "train.py"], "compares with --baseline FILE"),
        (["completion", "tcsh"], "invalid choice"),
    ],
)
def test_wrong_use_of_other_commands_is_code_2(script, arguments, message):
    refused(*arguments, cwd=script.parent, message=message)
