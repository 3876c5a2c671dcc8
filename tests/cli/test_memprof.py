"""The ``memprof`` command as its users run it: in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import jsonschema
import pytest

from stowgrad.cli import memprof
from stowgrad.cli.budgets import Budget, parse_budget
from stowgrad.cli.output import CommandError
from stowgrad.cli.target import Target, split_target

from .program import SCRIPT, command, refused, run


def profile(folder):
    (found,) = folder.glob("memprof-*.json")
    return json.loads(found.read_text())


# -- running -----------------------------------------------------------------------------------------------------------


def test_a_run_prints_the_report_and_writes_the_profile(script):
    code, out, err = run("run", "train.py", cwd=script.parent)
    assert code == 0, err
    assert out.startswith("memprof ")
    assert "python train.py   2 steps" in out
    assert "PEAK  10.5 MiB  on cpu, step 1, BACKWARD, in TanhBackward0\n      train.py:6\n" in out
    assert out.isascii()
    data = profile(script.parent)
    name = next(script.parent.glob("*.json")).name
    assert err == f"wrote {name}   next: memprof report {name}\n"
    schema = json.loads(run("schema", cwd=script.parent)[1])
    jsonschema.Draft202012Validator(schema).validate(data)
    assert data["peak"]["bytes"] == 11_000_000
    assert data["command"] == ["python", "train.py"]
    assert data["exit_code"] == 0
    assert data["frames"][0] == {"file": "train.py", "line": 6, "name": "lease"}


def test_report_prints_the_same_again_and_as_json(script):
    folder = script.parent
    _, out, _ = run("run", "-o", "p.json", "train.py", cwd=folder)
    assert run("report", "p.json", cwd=folder) == (0, out, "")
    code, text, err = run("report", "--json", "p.json", cwd=folder)
    assert (code, err) == (0, "")
    assert text == (folder / "p.json").read_text()
    assert run("report", "-", cwd=folder, text=text) == (0, out, "")
    exact = run("report", "--bytes", "--top", "1", "--width", "70", "p.json", cwd=folder)[1]
    assert "PEAK  11,000,000  on cpu" in exact
    assert "in 1 more" in exact
    assert max(map(len, exact.splitlines())) <= 70


def test_the_program_sees_what_python_gives_it(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("VALUE = 7\n")
    text = "import sys, helper\nprint(sys.argv, helper.VALUE, __name__, __file__, sys.modules['__main__'].VALUE)\n"
    (tmp_path / "sub" / "show.py").write_text(text.replace("\nprint", "\nVALUE = helper.VALUE\nprint"))
    arguments = ["sub/show.py", "-o", "x", "--", "-m"]
    expected = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert expected.startswith("['sub/show.py', '-o', 'x', '--', '-m'] 7 __main__")
    assert run("run", "-q", *arguments, cwd=tmp_path)[:2] == (0, expected)
    assert run("run", "-q", "-f", "-o", "p.json", "--", *arguments, cwd=tmp_path)[:2] == (0, expected)


def test_modules_and_code(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys\nprint(sys.argv[1:], __package__)\n")
    (tmp_path / "package" / "__init__.py").write_text("")
    assert run("run", "-q", "-m", "package", "-q", "x", cwd=tmp_path)[:2] == (0, "['-q', 'x'] package\n")
    assert run("run", "-q", "-c", "import sys; print(sys.argv, sys.path[0] == '', __name__)", "-o", cwd=tmp_path)[
        :2
    ] == (
        0,
        "['-c', '-o'] True __main__\n",
    )
    assert {path.name.rpartition("-")[0] for path in tmp_path.glob("*.json")} == {"memprof-package", "memprof-code"}


@pytest.mark.parametrize(
    ("code", "exit_code", "printed"),
    [
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('no data')", 1, "no data"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("syntax error", 1, "SyntaxError"),
        ("import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", 143, "SIGTERM"),
        ("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130, "KeyboardInterrupt"),
        (
            "from stowgrad.memory import set_limit; set_limit('8 MiB')\n" + SCRIPT,
            1,
            "MemoryBudgetError: the memory limit of cpu does not hold this step",
        ),
    ],
)
def test_the_profile_is_written_however_the_program_ends(tmp_path, code, exit_code, printed):
    got, out, err = run("run", "-c", code, cwd=tmp_path)
    assert (got, printed in err) == (exit_code, True), err
    assert out.startswith("memprof ")
    data = profile(tmp_path)
    assert data["exit_code"] == exit_code
    if "8 MiB" in code:
        assert data["peak"]["bytes"] == 5_000_000
        assert data["devices"][0]["budget_bytes"] == 8 << 20


def test_a_traceback_begins_with_the_program(tmp_path):
    (tmp_path / "fails.py").write_text("def f():\n    1 / 0\n\nf()\n")
    expected = subprocess.run([sys.executable, "fails.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    code, _, err = run("run", "-q", "fails.py", cwd=tmp_path)
    assert code == 1
    lines = [line for line in expected.stderr.splitlines() if "^" not in line]
    assert [line.replace(f"{tmp_path}{os.sep}", "") for line in err.splitlines() if "^" not in line] == [
        line.replace(f"{tmp_path}{os.sep}", "") for line in lines
    ]


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name != "posix", reason="needs POSIX signals")
def test_a_program_that_is_terminated_from_outside_is_reported(tmp_path):
    (tmp_path / "waits.py").write_text(f"{SCRIPT}\nopen('ready', 'w').close()\nimport time\ntime.sleep(60)\n")
    process = command("run", "-o", "p.json", "waits.py", cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    assert "PEAK  10.5 MiB" in out
    assert json.loads((tmp_path / "p.json").read_text())["exit_code"] == 143


def test_mode_peaks_has_no_rows(script):
    run("run", "--record", "peaks", "-o", "p.json", "train.py", cwd=script.parent)
    data = json.loads((script.parent / "p.json").read_text())
    assert data["options"] == {"record": "peaks"}
    assert data["saved"]["rows"] == []


# -- budgets -----------------------------------------------------------------------------------------------------------


def test_a_passed_budget_is_code_3(script):
    budgets = ["--budget", "forward=4MB", "--budget", "backward=12 MB", "--budget", "11000000"]
    code, out, err = run("run", *budgets, "train.py", cwd=script.parent)
    assert code == 3
    assert "PEAK" in out
    assert [line for line in err.splitlines() if "budget" in line] == [
        "memprof: peak 4.8 MiB > budget 3.8 MiB (+1,000,000 B, 25.0%) in forward on cpu"
    ]


def test_a_kept_budget_is_the_programs_own_code(script):
    budgets = ["--budget=11000000", "--budget", "eval=0"]
    assert run("run", *budgets, "train.py", cwd=script.parent)[0] == 0


def test_budgets_are_read():
    assert parse_budget("1.5 GiB") == Budget(None, 3 << 29)
    assert parse_budget("optimizer=64 MB") == Budget("optimizer", 64_000_000)
    with pytest.raises(ValueError, match="unknown phase 'optimiser'; expected one of setup, forward"):
        parse_budget("optimiser=64 MB")
    with pytest.raises(ValueError, match="expected a size such as"):
        parse_budget("64 bananas")


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: memprof"),
        (["run"], "name what to run: a script, -m MODULE or -c CODE"),
        (["run", "-m"], "-m needs a module"),
        (["run", "--"], "name what to run"),
        (["run", "missing.py"], "can't open script missing.py: no such file"),
        (["run", "--budget", "lots", "train.py"], "expected a size such as"),
        (["run", "--budget", "x=3", "train.py"], "unknown phase 'x'"),
        (["run", "--record", "some", "train.py"], "invalid choice"),
        (["run", "--outpt", "x", "train.py"], "--outpt"),
        (["run", "-o", "missing/p.json", "train.py"], "there is no directory missing"),
        (["run", "-o", ".", "train.py"], "is a directory"),
        (["run", "-o", "train.py", "train.py"], "train.py exists already; choose another name with -o, or overwrite"),
        (["report"], "FILE"),
        (["report", "missing.json"], "can't read missing.json: No such file or directory"),
        (["report", "."], "can't read .: Is a directory"),
        (["report", "train.py"], "train.py: this is no JSON"),
        (["report", "foreign.json"], "foreign.json: this is no memory profile"),
        (["report", "--top", "x", "foreign.json"], "expected a whole number, got 'x'"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
    ],
)
def test_wrong_use_is_code_2_and_says_what_to_do(script, arguments, message):
    (script.parent / "foreign.json").write_text('{"traceEvents": []}')
    refused(*arguments, cwd=script.parent, message=message)
    assert not list(script.parent.glob("memprof-*.json"))
    assert script.read_text() == SCRIPT


def test_a_file_is_overwritten_only_when_asked_to(script):
    target = script.parent / "p.json"
    target.write_text("mine")
    refused("run", "-o", "p.json", "train.py", cwd=script.parent, message="exists already")
    assert target.read_text() == "mine"
    assert run("run", "-f", "-o", "p.json", "train.py", cwd=script.parent)[0] == 0
    assert json.loads(target.read_text())["schema"] == "stowgrad.memprof/1"
    assert sorted(path.name for path in script.parent.iterdir()) == ["p.json", "train.py"]


def test_a_file_that_came_to_exist_meanwhile_is_kept(script):
    script.write_text(f"{SCRIPT}\nopen('p.json', 'w').write('mine')\n")
    code, out, err = run("run", "-o", "p.json", "train.py", cwd=script.parent)
    assert code == 2
    assert "PEAK" in out
    assert "p.json exists already" in err
    assert (script.parent / "p.json").read_text() == "mine"


def test_the_profile_goes_to_stdout_and_the_report_to_stderr(script):
    code, out, err = run("run", "-o", "-", "train.py", cwd=script.parent)
    assert code == 0
    assert json.loads(out)["peak"]["bytes"] == 11_000_000
    assert "PEAK  10.5 MiB" in err


def test_help_and_version(tmp_path):
    assert run("--version", cwd=tmp_path)[1].startswith("memprof ")
    assert len(run("-V", cwd=tmp_path)[1].splitlines()) == 1
    code, out, err = run("run", "--help", cwd=tmp_path)
    assert (code, err) == (0, "")
    assert "memprof run [options] [--] SCRIPT [ARGS ...]" in out


def test_a_reader_that_goes_away_is_no_error(script):
    run("run", "-o", "p.json", "train.py", cwd=script.parent)
    process = command("report", "p.json", cwd=script.parent)
    process.stdout.close()
    process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) in (0, 141)
    assert "Traceback" not in err
    assert "Exception" not in err


# -- in this process ---------------------------------------------------------------------------------------------------


def test_the_own_options_end_where_the_program_begins():
    def split(text):
        own, target = split_target(text.split())
        return " ".join(own), target

    assert split("-q -o x.json train.py -q") == ("-q -o x.json", Target("script", "train.py", ("-q",)))
    assert split("--output=x train.py") == ("--output=x", Target("script", "train.py", ()))
    assert split("--top 3 -m pip list") == ("--top 3", Target("module", "pip", ("list",)))
    assert split("-f -- -m pip -f") == ("-f", Target("module", "pip", ("-f",)))
    assert split("-- -odd.py") == ("", Target("script", "-odd.py", ()))
    assert split("-f") == ("-f", None)
    with pytest.raises(CommandError, match="-c needs code"):
        split_target(["-c"])


def test_a_run_leaves_the_interpreter_as_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "changes.py").write_text("import sys\nsys.argv.append('x')\nsys.path.append('y')\n")
    before = sys.argv, sys.argv[:], sys.path[:], sys.modules["__main__"], signal.getsignal(signal.SIGTERM)
    assert memprof.main(["run", "-q", "changes.py"]) == 0
    after = sys.argv, sys.argv[:], sys.path[:], sys.modules["__main__"], signal.getsignal(signal.SIGTERM)
    assert after == before
    assert capsys.readouterr() == ("", "")


def test_a_folder_with_a_main_file_runs_too(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys\nprint(sys.argv, __name__)\n")
    assert run("run", "-q", "app", "1", cwd=tmp_path)[:2] == (0, "['app', '1'] __main__\n")
