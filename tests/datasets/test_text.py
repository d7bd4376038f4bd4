"""The text that the package ships, vocabularies, and windows that follow one another."""

import doctest

import numpy as np
import pytest

from thalweg.datasets import text


def test_the_sample_is_the_beginning_of_moby_dick():
    sample = text.load()
    assert sample.startswith("CHAPTER 1. Loomings.") and "CHAPTER 9. The Sermon." in sample
    assert "CHAPTER 10." not in sample
    assert 90_000 < text.SAMPLE.stat().st_size < 110_000


def test_source_and_licence_lie_beside_the_sample():
    note = text.SAMPLE.with_suffix(".README.md").read_text()
    assert "Melville" in note and "public domain" in note


def test_any_file_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("schöne Wörter", encoding="utf-8")
    assert text.load(tmp_path / "a.txt") == "schöne Wörter"
    assert text.load(str(tmp_path / "a.txt")) == "schöne Wörter"


def test_files_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "latin.txt").write_bytes("schön".encode("latin-1"))
    with pytest.raises(ValueError, match=r"empty\.txt is empty"):
        text.load(tmp_path / "empty.txt")
    with pytest.raises(ValueError, match=r"latin\.txt is not a text in UTF-8"):
        text.load(tmp_path / "latin.txt")
    with pytest.raises(FileNotFoundError):
        text.load(tmp_path / "none.txt")


def test_words_keep_apostrophes_and_hyphens_inside():
    assert text.words("“It’s the water-gazers—leagues,” he said.") == [
        *("“", "it’s", "the", "water-gazers", "—", "leagues", ",", "”", "he", "said", ".")
    ]
    assert text.words(" \n") == []


def test_symbols_are_numbered_by_frequency():
    vocabulary = text.Vocabulary("banana")
    assert vocabulary.symbols == ["a", "n", "b"] and len(vocabulary) == 3
    assert vocabulary.encode("nab").tolist() == [1, 0, 2]
    assert "".join(vocabulary.decode([2, 0, 1])) == "ban"


def test_a_limited_vocabulary_calls_the_rest_unknown():
    vocabulary = text.Vocabulary(["a", "b", "a", "c", "a", "b", "<unk>"], limit=3)
    assert vocabulary.symbols == [text.UNKNOWN, "a", "b"]
    assert vocabulary.encode(["c", "b", "<unk>", "never seen"]).tolist() == [0, 2, 0, 0]


def test_symbols_outside_of_a_full_vocabulary_are_refused():
    with pytest.raises(ValueError, match="vocabulary of 3 symbols has no 'x', and no <unk>"):
        text.Vocabulary("abc").encode("ax")
    with pytest.raises(ValueError, match="limit of at least 1, not 0"):
        text.Vocabulary("abc", limit=0)


def test_rows_of_windows_go_on_where_they_ended():
    seen = list(text.windows(np.arange(101), batch=4, steps=5))
    assert len(seen) == 5
    rows = np.concatenate([inputs for inputs, _ in seen], axis=1)
    assert rows.tolist() == np.arange(100).reshape(4, 25).tolist()
    assert all((targets == inputs + 1).all() for inputs, targets in seen)


@pytest.mark.parametrize(("length", "batch", "steps"), [(0, 1, 1), (1, 1, 1), (10, 5, 2), (10, 11, 1)])
def test_a_text_too_short_for_a_window_is_refused(length, batch, steps):
    with pytest.raises(ValueError, match=f"text of {length} symbols is too short"):
        text.windows(range(length), batch, steps)


@pytest.mark.parametrize(("batch", "steps"), [(0, 1), (1, 0), (-1, 3)])
def test_windows_of_no_size_are_refused(batch, steps):
    with pytest.raises(ValueError, match="at least 1"):
        text.windows(range(10), batch, steps)


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(text).failed == 0
