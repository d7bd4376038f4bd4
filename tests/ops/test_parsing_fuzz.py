"""Damaged Examples: every truncation, many changed bytes and random ones, against what protobuf's own parser says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError

import thalweg as tf
from tests.ops.example_bytes import example, field, ints, sequence_example, varint

ROW = example(f=[1.5, -2.0], i=[0, 300, -1], s=[b"", b"text"], other=[7])
SEQUENCE = sequence_example({"i": [5, 600]}, {"f": [[1.0], [2.0, 3.0]], "s": [[b"a"], []]})
KINDS = {"f": "float_list", "i": "int64_list", "s": "bytes_list"}
TYPES = {"f": tf.float32, "i": tf.int64, "s": tf.string}


@pytest.fixture(params=["alone", "after another"])
def parse(request):
    """A function from bytes to the values of the three features, or to the error.

    The parser expects an example to be laid out like the one before it, which must make no difference.
    """
    before = [ROW] if request.param == "after another" else []
    with tf.Graph().as_default(), tf.Session() as sess:
        serialized = tf.placeholder(tf.string, [None])
        parsed = tf.parse_example(serialized, {key: tf.VarLenFeature(dtype) for key, dtype in TYPES.items()})
        values = {
            key: tf.boolean_mask(tensor.values, tf.equal(tensor.indices[:, 0], len(before)))
            for key, tensor in parsed.items()
        }

        def call(text: bytes) -> Any:
            try:
                return {key: value.tolist() for key, value in sess.run(values, {serialized: [*before, text]}).items()}
            except tf.errors.InvalidArgumentError as e:
                return e

        yield call


def expected(text: bytes) -> Any:
    """Protobuf's result: the values, the name of a feature of the wrong kind, or that the bytes are no Example."""
    try:
        features = tf.train.Example.FromString(text).features.feature
    except (DecodeError, UnicodeDecodeError):
        return None
    found = {}
    for key, kind in KINDS.items():
        held = features[key].WhichOneof("kind") if key in features else None
        if held not in (None, kind):
            return key
        found[key] = list(getattr(features[key], kind).value) if held else []
    return found


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return all(
        ours[key] == theirs[key] or np.array_equal(ours[key], np.float32(theirs[key]), equal_nan=True)
        for key in ours
        if key != "s" or ours[key] != theirs[key]
    )


def check(ours: Any, text: bytes, changed: int | None = None) -> str:
    """Checks that we and protobuf agree on some bytes; returns the kind of outcome."""
    theirs = expected(text)
    if isinstance(ours, dict):
        # Features that are not parsed are not checked: protobuf may refuse them.
        assert theirs is None or (isinstance(theirs, dict) and same(ours, theirs)), text
        return "parsed"
    message = str(ours)
    if "Data types don't match" in message:
        assert theirs is None or isinstance(theirs, str), (text, message)
        return "wrong kind"
    assert "parse" in message, message
    # Groups: protobuf skips them, we refuse them.
    assert theirs is None or (changed is not None and changed & 7 in (3, 4)), (text, message)
    return "refused"


def test_the_whole(parse):
    assert parse(ROW) == {"f": [1.5, -2.0], "i": [0, 300, -1], "s": [b"", b"text"]}
    assert expected(ROW) == parse(ROW)


def test_every_truncation(parse):
    outcomes = {check(parse(ROW[:end]), ROW[:end]) for end in range(len(ROW))}
    assert outcomes == {"parsed", "refused"}  # Nothing at all is an Example without features.


def test_every_byte_changed(parse):
    outcomes: dict[str, int] = {}
    for place in range(len(ROW)):
        for flip in (0x01, 0x08, 0x80, 0xFF):
            text = bytearray(ROW)
            text[place] ^= flip
            outcome = check(parse(bytes(text)), bytes(text), text[place])
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert set(outcomes) == {"parsed", "wrong kind", "refused"}


def test_random_bytes(parse):
    rng = np.random.default_rng(3)
    for _ in range(400):
        # Small tags and lengths, so that some of it makes sense.
        text = bytes(rng.choice([0x0A, 0x12, 0x1A, 1, 2, 3, 5, 8, 0x69, 0xFF], rng.integers(1, 30)).astype(np.uint8))
        assert isinstance(parse(text), (dict, tf.errors.InvalidArgumentError))


def test_examples_of_all_lengths_after_each_other(parse):
    """The lengths around the values get a second byte one after the other, some of them before the others."""
    for count in (0, 1, 2, 3, 4, 5, 27, 28, 29, 30, 31, 32, 33, 100, 5000):
        for text in (
            example(f=[0.5] * count or None, i=[1], s=[b"x"] * (1 + count // 3)),
            example(i=[2] * count or None, f=[1.0], s=[b"y" * count]),
            example(f=[0.25] * (1 + count % 7), i=[*range(count + 1)], s=[b"z" * (count % 5)] * 9, other=[count]),
        ):
            assert check(parse(text), text) == "parsed"
            assert isinstance(expected(text), dict)
    with tf.Graph().as_default(), tf.Session() as sess:
        lengths = [*range(140), *range(139, -1, -1), 127, 128, 127, 126, 16383, 16384, 2, 16400]
        rows = [example(i=[j & 127 for j in range(n)] or None, s=[b"v" * n], f=[1.0] * (1 + n // 4)) for n in lengths]
        parsed = tf.parse_example(rows, {"i": tf.VarLenFeature(tf.int64), "s": tf.FixedLenFeature([], tf.string)})
        numbers, strings = sess.run([parsed["i"], parsed["s"]])
    assert [len(string) for string in strings] == lengths
    np.testing.assert_array_equal(np.bincount(numbers.indices[:, 0], minlength=len(lengths)), lengths)
    np.testing.assert_array_equal(numbers.values, numbers.indices[:, 1] & 127)


def test_numbers_and_lengths_that_are_too_long(parse):
    for text in (
        field(1, field(1, field(1, b"i") + field(2, field(3, field(1, b"\xff" * 11))))),
        field(1, field(1, field(1, b"i") + field(2, field(3, b"\x08" + b"\x80" * 10 + b"\x01")))),
        b"\x0a" + varint(2**63),
        b"\x0a" + varint(2**64 - 1) + b"x",
        b"\x0a" + b"\xff" * 10 + b"\x7f",
        varint(2**35 << 3 | 2) + b"\x00",
    ):
        assert "parse" in str(parse(text))
    bomb = ints(1)
    for _ in range(1000):
        bomb = field(1, bomb)
    assert check(parse(bomb), bomb) in ("parsed", "refused")


def test_damaged_sequences():
    with tf.Graph().as_default(), tf.Session() as sess:
        serialized = tf.placeholder(tf.string, [None])
        context, lists, _ = tf.io.parse_sequence_example(
            serialized, {"i": tf.VarLenFeature(tf.int64)},
            {"f": tf.VarLenFeature(tf.float32), "s": tf.VarLenFeature(tf.string)},
        )  # fmt: skip
        fetches = [context["i"].values, lists["f"].values, lists["s"].values, lists["f"].dense_shape]
        whole = [value.tolist() for value in sess.run(fetches, {serialized: [SEQUENCE]})]
        assert whole == [[5, 600], [1, 2, 3], [b"a"], [1, 2, 2]]
        outcomes = {"parsed": 0, "refused": 0}
        texts = [SEQUENCE[:end] for end in range(len(SEQUENCE))]
        for place in range(len(SEQUENCE)):
            for flip in (0x01, 0x80, 0xFF):
                text = bytearray(SEQUENCE)
                text[place] ^= flip
                texts.append(bytes(text))
        for text in texts:
            try:
                sess.run(fetches, {serialized: [text]})
                outcomes["parsed"] += 1
            except tf.errors.InvalidArgumentError as e:
                outcomes["refused"] += 1
                refused = str(e)
                assert any(word in refused for word in ("Invalid protocol message", "types don't match", "Can't parse"))
    assert min(outcomes.values()) > 0
