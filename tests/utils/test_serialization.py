"""safetensors files: what goes in comes out, also elsewhere, and nothing foreign or damaged is taken for one."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import stowgrad
from stowgrad import nn, utils
from stowgrad.utils import atomic

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 4), np.int16),
    "mask": np.array([True, False]),
    "numbers": np.arange(3),
    "bytes": np.arange(5, dtype=np.uint8),
    "half": np.ones(3, np.float16),
    "complex": np.array([1 + 2j], np.complex64),
    "words": np.array([2**63, 1], np.uint64),
}


def saved(path: Path) -> Path:
    tensors = {name: stowgrad.from_numpy(array.copy()) for name, array in ARRAYS.items()}
    tensors["brain"] = stowgrad.tensor([1.5, -2.0]).bfloat16()
    utils.save_file(tensors, path, {"made by": "a test", "unicode": "äß"})
    return path


def test_round_trip(tmp_path: Path):
    loaded = utils.load_file(saved(tmp_path / "x.safetensors"))
    assert set(loaded) == {*ARRAYS, "brain"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name].numpy(), array)
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
    assert loaded["brain"].dtype == stowgrad.bfloat16
    assert loaded["brain"].float().numpy().tolist() == [1.5, -2]
    assert utils.load_metadata(tmp_path / "x.safetensors") == {"made by": "a test", "unicode": "äß"}
    assert not loaded["matrix"].requires_grad


def test_the_safetensors_package_reads_it_and_is_read(tmp_path: Path):
    path = saved(tmp_path / "x.safetensors")
    theirs = safetensors.numpy.load_file(path)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(theirs[name], array)
    safetensors.numpy.save_file(theirs, tmp_path / "y.safetensors")
    ours = utils.load_file(tmp_path / "y.safetensors")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(ours[name].numpy(), array)


def test_data_is_aligned_and_the_header_is_json(tmp_path: Path):
    content = saved(tmp_path / "x").read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    header = json.loads(content[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            size = end - begin
            assert begin % (size // max(int(np.prod(entry["shape"])), 1) or 1) == 0


def test_views_and_devices(tmp_path: Path, device: str):
    tensor = stowgrad.tensor(ARRAYS["matrix"], device=device)
    utils.save_file({"t": tensor.transpose(0, 1), "part": tensor[:, 1:2]}, tmp_path / "x")
    loaded = utils.load_file(tmp_path / "x", device=device)
    assert str(loaded["t"].device) == device
    np.testing.assert_array_equal(loaded["t"].cpu().numpy(), ARRAYS["matrix"].T)
    np.testing.assert_array_equal(loaded["part"].cpu().numpy(), ARRAYS["matrix"][:, 1:2])


def test_a_module_moves_through_a_file(tmp_path: Path):
    one, two = nn.Linear(3, 2), nn.Linear(3, 2)
    utils.save_file(one.state_dict(), tmp_path / "x")
    two.load_state_dict(utils.load_file(tmp_path / "x"))
    np.testing.assert_array_equal(one.weight.detach().numpy(), two.weight.detach().numpy())


def test_saving_takes_no_second_copy(tmp_path: Path, memprof: Any):
    tensor = stowgrad.zeros(1 << 20)
    with memprof(budget="64 KiB"):
        utils.save_file({"t": tensor}, tmp_path / "x")


# -- refusals ----------------------------------------------------------------------------------------------------------


def damaged() -> dict[str, Any]:
    def claim(header: object, data: bytes = b"") -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data

    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    text = json.dumps(entry).encode()
    return {
        "empty": b"",
        "short": b"\x01\x02",
        "pickle": b"\x80\x04\x95" + bytes(100),
        "zip": b"PK\x03\x04" + bytes(100),
        "huge header": b"\xff" * 8 + b"{}",
        "no json": claim(b"{nothing"),
        "truncated": claim({"t": entry}, bytes(7)),
        "trailing": claim({"t": entry}, bytes(9)),
        "wrong size": claim({"t": {**entry, "shape": [3]}}, bytes(8)),
        "overflow": claim({"t": {**entry, "shape": [2**62, 2**62]}}, bytes(8)),
        "overlap": claim({"t": entry, "u": entry}, bytes(8)),
        "unknown dtype": claim({"t": {**entry, "dtype": "F99"}}, bytes(8)),
        "header longer than the file": (1 << 20).to_bytes(8, "little") + b"{}",
        "header of a terabyte": (1 << 40).to_bytes(8, "little") + b"{}" + bytes(100),
        "deep header": claim(b"[" * 100_000 + b"]" * 100_000),
        "partial overlap": claim({"t": entry, "u": {**entry, "data_offsets": [4, 12]}}, bytes(12)),
        "hole": claim({"t": entry, "u": {**entry, "data_offsets": [16, 24]}}, bytes(24)),
        "offsets past the end": claim({"t": {**entry, "data_offsets": [0, 1 << 60]}}, bytes(8)),
        "offsets backwards": claim({"t": {**entry, "data_offsets": [8, 0]}}, bytes(8)),
        "negative offsets": claim({"t": {**entry, "data_offsets": [-8, 0]}}, bytes(8)),
        "negative sizes": claim({"t": {**entry, "shape": [-2]}}, bytes(8)),
        "dtype of other size": claim({"t": {**entry, "dtype": "F64"}}, bytes(8)),
        "name twice": claim(b'{"t":' + text + b',"t":' + text.replace(b"F32", b"I32") + b"}", bytes(8)),
        "name twice, one part each": claim(
            b'{"t":' + text + b',"t":' + text.replace(b"[0, 8]", b"[8, 16]") + b"}", bytes(16)
        ),
        "field twice": claim(b'{"t":{"dtype":"I32",' + text[1:] + b"}", bytes(8)),
        "text twice": claim(b'{"__metadata__":{"a":"1","a":"2"},"t":' + text + b"}", bytes(8)),
        "metadata that are no texts": claim({"__metadata__": {"a": 1}, "t": entry}, bytes(8)),
    }


@pytest.mark.parametrize("content", damaged().values(), ids=damaged().keys())
def test_foreign_and_damaged_files_are_value_errors_that_name_the_file(tmp_path: Path, content: bytes):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors: expected a complete safetensors file"):
        utils.load_file(path)
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        utils.load_metadata(path)


@pytest.mark.parametrize(
    ("entry", "data", "text"),
    [
        ({"dtype": "F32", "shape": [1] * 70 + [2], "data_offsets": [0, 8]}, bytes(8), "71 dimensions"),
        ({"dtype": "F32", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}, b"", "sizes that no array can have"),
        ({"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}, b"\x02\x01", "bytes other than 0 and 1"),
    ],
)
def test_what_no_array_can_be_is_named(tmp_path: Path, entry: Any, data: bytes, text: str):
    header = json.dumps({"t": entry}).encode()
    (tmp_path / "model").write_bytes(len(header).to_bytes(8, "little") + header + data)
    with pytest.raises(ValueError, match=f"model: tensor 't' .*{text}"):
        utils.load_file(tmp_path / "model")


def test_names_are_never_paths(tmp_path: Path):
    names = ["../outside", "/etc/passwd", "a\0b", "", "..", "x" * 5000]
    utils.save_file({name: stowgrad.ones(1) for name in names}, tmp_path / "x")
    assert sorted(utils.load_file(tmp_path / "x")) == sorted(names)
    model = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: .*"\.\./outside"'):
        model.load_state_dict(utils.load_file(tmp_path / "x"))
    utils.save_training_state(tmp_path / "y", model=model, parts={"../part": stowgrad.Generator()})
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


def test_every_truncation_is_noticed(tmp_path: Path):
    path = saved(tmp_path / "x")
    content = path.read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="expected a complete safetensors file"):
            utils.load_file(path)


def test_a_dtype_that_numpy_lacks_is_named(tmp_path: Path):
    header = json.dumps({"t": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with pytest.raises(ValueError, match="'t' has the dtype F8_E8M0"):
        utils.load_file(tmp_path / "x")


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="absent"):
        utils.load_file(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        utils.load_file(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "text"),
    [
        ({"a": np.ones(1)}, None, TypeError, "'a': expected a Tensor"),
        ({"a": stowgrad.tensor(np.ones(1, np.complex128))}, None, ValueError, "no dtype complex128"),
        ({"__metadata__": stowgrad.ones(1)}, None, ValueError, "__metadata__"),
        ({3: stowgrad.ones(1)}, None, ValueError, "name 3"),
        ({"a": stowgrad.ones(1)}, {"step": 3}, TypeError, "metadata are texts"),
        ({"a": stowgrad.ones(1, device="meta")}, None, ValueError, "meta"),
    ],
)
def test_what_cannot_be_saved_leaves_the_old_file(
    tmp_path: Path, tensors: Any, metadata: Any, error: type[Exception], text: str
):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(error, match=text):
        utils.save_file(tensors, path, metadata)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


# -- atomic writing ----------------------------------------------------------------------------------------------------


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    for error in (KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))):
        with pytest.raises(type(error)):
            with atomic.replacing(path) as file:
                file.write(b"new")
                raise error
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["x"]
    with pytest.raises(OSError, match=r"No space left on device: '.*x'"):
        with atomic.replacing(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_permissions_and_links_stay(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic.replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_only_regular_files_are_replaced(tmp_path: Path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="no regular file"), atomic.replacing(fifo):
        pass
    with pytest.raises(FileNotFoundError), atomic.replacing(tmp_path / "absent" / "x"):
        pass


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    stale = tmp_path / f".x.{child}-0123abcd.tmp"
    mine = tmp_path / f".x.{os.getpid()}-0123abcd.tmp"
    other = tmp_path / f".y.{child}-0123abcd.tmp"
    for path in (stale, mine, other):
        path.write_bytes(b"")
    with atomic.replacing(tmp_path / "x") as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([mine.name, other.name, "x"])
