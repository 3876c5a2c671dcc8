from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def text(examples):
    return examples("text")


@pytest.fixture(scope="module")
def corpus(text):
    return text.build_corpus(300, 32)


def test_the_manual_is_english(text):
    joined = "\n".join(text.manual())
    assert len(joined) > 100_000
    assert " the " in joined
    assert joined.isascii()
    assert "::=" not in joined
    assert ">>>" not in joined


def test_no_paragraph_is_in_both_parts(corpus):
    train, validation = (set(corpus.decode(part).split("\n")) - {""} for part in (corpus.train, corpus.validation))
    assert len(validation) > 50
    assert not train & validation


def test_the_same_text_gives_the_same_tokens(text, corpus):
    again = text.build_corpus(300, 32)
    assert again.fingerprint == corpus.fingerprint
    assert again.vocabulary == corpus.vocabulary
    assert text.build_corpus(299, 32).fingerprint != corpus.fingerprint


def test_tokens_stand_for_the_text(text):
    paragraphs = [f"Paragraph {number} is about théâtre [{number * 7}]." for number in range(60)]
    corpus = text.build_corpus(60, 8, "\n\n".join(paragraphs))
    shown = [paragraph.replace("théâtre", "thtre") for paragraph in paragraphs]
    assert corpus.decode(corpus.validation) == "".join(line + "\n" for line in shown[9::10])
    assert corpus.decode(corpus.train).startswith(shown[0] + "\n" + shown[1])
    assert len(corpus.vocabulary) == 60


def test_pairs_are_the_most_frequent_ones(text):
    vocabulary, merges = text.learn_pairs("abab abab ab cd", 9, " abcd")
    # ab is there five times; then abab twice, and " ab" twice; then " abab" is left only once
    assert vocabulary == [" ", "a", "b", "c", "d", "ab", "abab"]
    assert merges == {(1, 2): 5, (5, 5): 6}


def test_a_batch_depends_on_seed_and_step_alone(corpus):
    inputs, targets = corpus.batch(seed=3, step=7, batch=4, length=32)
    assert inputs.shape == targets.shape == (4, 32)
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    np.testing.assert_array_equal(corpus.batch(3, 7, 4, 32)[0], inputs)
    assert (corpus.batch(3, 8, 4, 32)[0] != inputs).any()
    assert (corpus.batch(4, 7, 4, 32)[0] != inputs).any()


def test_validation_windows_follow_each_other(corpus):
    batches = corpus.validation_batches(batch=5, length=32, most=12)
    assert [inputs.shape for inputs, _ in batches] == [(5, 32), (5, 32), (2, 32)]
    joined = np.concatenate([inputs.reshape(-1) for inputs, _ in batches])
    np.testing.assert_array_equal(joined, corpus.validation[: joined.size])
