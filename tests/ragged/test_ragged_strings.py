"""Strings as rows of characters, bytes and n-grams, of any rank and ragged."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf

NESTED = [["hé", "b"], [], ["xyz"]]


def run(value: Any) -> Any:
    with tf.Session() as session:
        found = session.run(value)
    if isinstance(found, tuple) and not hasattr(found, "to_list"):
        return [each.to_list() if hasattr(each, "to_list") else each.tolist() for each in found]
    return found.to_list() if hasattr(found, "to_list") else found.tolist()


def test_code_points_of_strings_of_every_rank() -> None:
    decode = tf.strings.unicode_decode
    assert run(decode("hé", "UTF-8")) == [104, 233]
    assert run(decode(["hé", ""], "UTF-8")) == [[104, 233], []]
    assert run(decode([["hé", "b"], ["", "x"]], "UTF-8")) == [[[104, 233], [98]], [[], [120]]]
    assert run(decode(tf.ragged.constant(NESTED), "UTF-8")) == [[[104, 233], [98]], [], [[120, 121, 122]]]
    assert run(tf.strings.unicode_decode_with_offsets(["aéb"], "UTF-8")) == [[[97, 233, 98]], [[0, 1, 3]]]


def test_code_points_become_strings_again() -> None:
    encode = tf.strings.unicode_encode
    with tf.Session() as session:
        assert session.run(encode([104, 233], "UTF-8")) == "hé".encode()
    assert run(encode([[104, 105], [65, 66]], "UTF-8")) == [b"hi", b"AB"]
    assert run(encode(tf.ragged.constant([[[104], [65, 66]], []]), "UTF-8")) == [[b"h", b"AB"], []]


def test_characters_and_bytes() -> None:
    assert run(tf.strings.unicode_split("hé", "UTF-8")) == [b"h", "é".encode()]
    assert run(tf.strings.unicode_split(tf.ragged.constant(NESTED), "UTF-8")) == [
        [[b"h", "é".encode()], [b"b"]], [], [[b"x", b"y", b"z"]],
    ]  # fmt: skip
    assert run(tf.strings.unicode_split_with_offsets(["éa"], "UTF-8"))[1] == [[0, 2]]
    assert run(tf.strings.bytes_split(["hé", ""])) == [[b"h", b"\xc3", b"\xa9"], []]


def test_ngrams() -> None:
    ngrams = tf.strings.ngrams
    assert run(ngrams(["a", "b", "c"], 2)) == [b"a b", b"b c"]
    assert run(ngrams([["a", "b"], ["c", "d"]], (1, 2), "|")) == [[b"a", b"b", b"a|b"], [b"c", b"d", b"c|d"]]
    rows = tf.ragged.constant([["a", "b"], [], ["c"]])
    assert run(ngrams(rows, 2, pad_values=("L", "R"))) == [[b"L a", b"a b", b"b R"], [b"L R"], [b"L c", b"c R"]]
    assert run(ngrams(rows, 3, pad_values="p", padding_width=1)) == [[b"p a b", b"a b p"], [], [b"p c p"]]
    assert run(ngrams(rows, 3, preserve_short_sequences=True)) == [[b"a b"], [], [b"c"]]
    with pytest.raises(ValueError, match="greater than 0"):
        ngrams(rows, 0)
