from __future__ import annotations

import pytest


@pytest.fixture
def demo(examples):
    return examples("demo")


@pytest.fixture
def results(demo):
    """What plain training, and one of each kind of other mode, could give."""
    plain = {
        "mode": "plain",
        "forward_peak_bytes": 3 << 20,
        "backward_peak_bytes": 4 << 20,
        "saved_raw_bytes": 2 << 20,
        "saved_resident_bytes": 2 << 20,
        "seconds_per_step": 0.5,
        "training_loss": 3.5,
        "validation_loss": 4.25,
        "checksum": 1,
    }
    return [plain, {**plain, "mode": "disk", "seconds_per_step": None}, {**plain, "mode": "bfloat16", "checksum": 2}]


def test_the_table(demo, results, capsys):
    demo.print_table(results)
    head, plain, disk, rounded = capsys.readouterr().out.splitlines()[:4]
    assert head.split()[0] == "mode"
    assert " ".join(plain.split()) == "plain 3.0 MiB 4.0 MiB 2.0 MiB 2.0 MiB 0.500 4.250000000 yes"
    assert disk.split()[-3:] == ["-", "4.250000000", "yes"]
    assert rounded.endswith("no, lossy")


@pytest.mark.parametrize(("mode", "code"), [("bfloat16", 0), ("disk", 1), ("combined", 1)])
def test_only_a_lossy_mode_may_end_differently(demo, results, monkeypatch, capsys, mode, code):
    def train(trained, settings, scratch):
        return {**results[0], "mode": trained, "checksum": int(trained == mode)}

    monkeypatch.setattr(demo, "train", train)
    monkeypatch.setattr(demo, "report", lambda settings, scratch: None)
    monkeypatch.setattr(demo.sys, "argv", ["demo.py"])
    assert demo.main() == code
    assert capsys.readouterr().err == (f"demo: error: not the same model as plain training: {mode}\n" if code else "")


@pytest.mark.slow
def test_the_whole_demo(demo, tiny, monkeypatch, capfd):
    monkeypatch.setenv("PYTHONPATH", str(demo.EXAMPLES.resolve().parent))
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", "--steps", "4", *tiny])
    assert demo.main() == 0
    out = capfd.readouterr().out
    assert out.count("yes\n") == 4
    assert "no, lossy\n" in out
    assert "A text by the model" in out
    assert "PEAK" in out


def test_a_mode_that_fails(demo, monkeypatch, capfd):
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", "--steps", "none"])
    with pytest.raises(SystemExit, match="2"):
        demo.main()
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", "--heads", "none"])
    assert demo.main() == 1
    assert "failed" in capfd.readouterr().err
