"""English text to train on, as numbers: the manual that every Python carries, in byte pairs."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

_VALIDATION_EVERY = 10
_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "—": "--", "–": "-", "\t": " "})
# A word with the space before it, a run of digits, a line break, or any other single character.
_PIECES = re.compile(r" ?[A-Za-z]+|[0-9]+|\s|[^A-Za-z0-9\s]")

Tokens = npt.NDArray[np.int32]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Corpus:
    """A text in two parts and the numbers for it.

    Attributes:
        train, validation: the two parts, one number a token; no paragraph is in both.
        vocabulary: what each number stands for.
        characters: how many characters a token of the validation part has on average.
        fingerprint: a checksum: runs on different texts or vocabularies can't be the same run.
    """

    train: Tokens = field(repr=False)
    validation: Tokens = field(repr=False)
    vocabulary: list[str] = field(repr=False)
    characters: float
    fingerprint: int

    def decode(self, tokens: npt.ArrayLike) -> str:
        """The text of some tokens."""
        return "".join(self.vocabulary[token] for token in np.asarray(tokens).reshape(-1))

    def batch(self, seed: int, step: int, batch: int, length: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Inputs and targets of a training step, ``(batch, length)`` each: they depend on seed and step alone."""
        starts = np.random.default_rng((seed, step)).integers(0, self.train.size - length, batch)
        return _windows(self.train, starts, length)

    def validation_batches(self, batch: int, length: int, most: int) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The validation part from its beginning, in windows side by side; at most ``most`` windows."""
        starts = np.arange(0, self.validation.size - length, length)[:most]
        return [_windows(self.validation, starts[at : at + batch], length) for at in range(0, starts.size, batch)]


def _windows(tokens: Tokens, starts: npt.NDArray[Any], length: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    at = starts[:, None] + np.arange(length)
    return tokens[at].astype(np.int64), tokens[at + 1].astype(np.int64)


def build_corpus(vocabulary_size: int, length: int, text: str | None = None) -> Corpus:
    """Split a text, make a vocabulary from its training part, and number both parts.

    Args:
        vocabulary_size: how many tokens there are, if the text has so many different characters and pairs.
        length: how long the windows will be.
        text: paragraphs with empty lines between them; Python's own manual by default.

    Raises:
        ValueError: if the text is too short for a window in each part.
        ModuleNotFoundError: if this Python has no manual.
    """
    paragraphs = list(dict.fromkeys(manual() if text is None else _paragraphs(text)))
    parts = ["", ""]
    for number, paragraph in enumerate(paragraphs):
        parts[number % _VALIDATION_EVERY == _VALIDATION_EVERY - 1] += paragraph + "\n"
    train, validation = parts
    vocabulary, merges = learn_pairs(train, vocabulary_size, "".join(sorted(set(train + validation))))
    coded = [_encode(part, vocabulary, merges) for part in parts]
    for name, tokens in zip(("training", "validation"), coded):
        if tokens.size < length + 2:
            raise ValueError(f"the text is too short: its {name} part has {tokens.size} tokens, a window {length + 1}")
    fingerprint = zlib.crc32("\0".join([*vocabulary, *parts]).encode())
    return Corpus(coded[0], coded[1], vocabulary, len(validation) / coded[1].size, fingerprint)


def manual() -> list[str]:
    """The paragraphs of ``pydoc_data.topics`` that are prose, in their order."""
    try:
        from pydoc_data.topics import topics  # type: ignore[import-untyped,unused-ignore]  # has no types everywhere
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}: this Python comes without its manual; name another text: --text FILE"
        ) from error
    return [paragraph for name in sorted(topics) for paragraph in _paragraphs(topics[name]) if _is_prose(paragraph)]


def _paragraphs(text: str) -> list[str]:
    """What stands between empty lines, each paragraph in one line and in ASCII."""
    blocks = re.split(r"\n\s*\n", text.translate(_PLAIN).encode("ascii", "ignore").decode())
    return [" ".join(block.split()) for block in blocks if block.strip()]


def _is_prose(paragraph: str) -> bool:
    """Whether it ends like a sentence and is made of words."""
    letters = sum(character.isalpha() or character == " " for character in paragraph)
    return len(paragraph) > 40 and paragraph[-1] in ".:)" and letters > 0.8 * len(paragraph)


# -- byte pairs: the pair of neighbours that is most frequent becomes a new token, again and again ---------------------


def learn_pairs(text: str, size: int, characters: str) -> tuple[list[str], dict[Pair, int]]:
    """A vocabulary of ``characters`` and frequent sequences of them, and the merges that lead to it.

    Pairs are counted within words; of equally frequent ones, the one that was met first comes first.
    """
    vocabulary = list(characters)
    merges: dict[Pair, int] = {}
    number = {character: index for index, character in enumerate(characters)}
    pieces = Counter(_PIECES.findall(text))
    words = [[number[character] for character in piece] for piece in pieces]
    weights = list(pieces.values())
    counts: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += weights[index]
            where[pair].add(index)
    while len(vocabulary) < size and counts:
        best = max(counts, key=counts.__getitem__)
        if counts[best] < 2:
            break
        merges[best] = len(vocabulary)
        vocabulary.append(vocabulary[best[0]] + vocabulary[best[1]])
        for index in sorted(where.pop(best)):
            before, after = words[index], _merged(words[index], best, merges[best])
            words[index] = after
            for pair in pairwise(before):
                counts[pair] -= weights[index]
            for pair in pairwise(after):
                counts[pair] += weights[index]
                where[pair].add(index)
        del counts[best]
    return vocabulary, merges


def _merged(word: list[int], pair: Pair, token: int) -> list[int]:
    result: list[int] = []
    at = 0
    while at < len(word):
        found = tuple(word[at : at + 2]) == pair
        result.append(token if found else word[at])
        at += 2 if found else 1
    return result


def _encode(text: str, vocabulary: list[str], merges: dict[Pair, int]) -> Tokens:
    """The text's tokens: in each word, pairs are merged in the order in which they were learned."""
    number = {entry: index for index, entry in enumerate(vocabulary) if len(entry) == 1}
    pieces = _PIECES.findall(text)
    known: dict[str, list[int]] = {}
    for piece in set(pieces):
        word = [number[character] for character in piece]
        while pairs := [merges[pair] for pair in pairwise(word) if pair in merges]:
            first = min(pairs)
            pair = next(pair for pair in pairwise(word) if merges.get(pair) == first)
            word = _merged(word, pair, first)
        known[piece] = word
    return np.array([token for piece in pieces for token in known[piece]], np.int32)
