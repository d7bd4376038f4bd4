"""Strings beyond the op cases: hash values that saved models depend on, and old argument names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

# Text, then its buckets among 2**62 by farmhash, siphash with key (1, 2), and murmurhash: TensorFlow's values.
_BUCKETS = [
    ("", 1936946117179621455, 443797209252341627, 105434511174508091),
    ("a", 3694432073954588131, 546566331822570742, 2996632905371535868),
    ("abc", 2640714258260161385, 1250540936487842205, 1046625677629754806),
    ("hello world this", 2381243785678636150, 4174823283447247418, 2576763364894762483),
    ("x" * 17, 2082709914559524773, 3111895715772102224, 4161156153655800118),
    ("y" * 33, 3999049019338133246, 202190614605344851, 3468653955998158666),
    ("z" * 65, 3688229565335330613, 1522482378448811398, 2788949775400558854),
    ("q" * 200, 3537263014797593713, 2312919990632705991, 1673794137578948632),
    ("é", 693143013273849025, 4006969190011310591, 3701471315553960761),
]


@pytest.mark.parametrize(("text", "fast", "strong", "oldest"), _BUCKETS)
def test_buckets_are_tensorflows(text: str, fast: int, strong: int, oldest: int) -> None:
    buckets = 2**62
    with tf.Graph().as_default(), tf.Session() as session:
        got = session.run(
            [
                tf.string_to_hash_bucket_fast(text, buckets),
                tf.string_to_hash_bucket_strong(text, buckets, [1, 2]),
                tf.string_to_hash_bucket(text, buckets),
            ]
        )
    assert got == [fast, strong, oldest]


def test_text_of_tensors_is_nested_and_cut_in_the_middle() -> None:
    with tf.Graph().as_default(), tf.Session() as session:

        def text(*args: Any, **kwargs: Any) -> Any:
            return session.run(tf.strings.format(*args, **kwargs)).decode()

        _check_texts(text)


def _check_texts(text: Any) -> None:
    assert text("{} {}", [tf.constant(1 / 3), tf.constant([True])]) == "0.333333343 [1]"
    assert text("{}", tf.constant(["a", '"'])) == '["a" "\\""]'
    assert text("{}", tf.reshape(tf.range(8), [2, 2, 2])) == "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"
    assert text("{}", tf.range(10), summarize=1) == "[0 ... 9]"
    assert text("{}", tf.range(10), summarize=-1) == "[0 1 2 3 4 5 6 7 8 9]"
    with pytest.raises(ValueError, match="expects 2 tensors"):
        text("{} {}", [tf.constant(1)])


def test_old_argument_names_work() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.string_to_number(input="2")) == 2
        assert session.run(tf.decode_raw(bytes="a", out_type=tf.uint8)).tolist() == [97]
        assert session.run(tf.reduce_join(["a", "b"], reduction_indices=0, keep_dims=True)).tolist() == [b"ab"]
        assert session.run(tf.string_split(source=["a-b"], delimiter="-")).values.tolist() == [b"a", b"b"]
        with pytest.raises(ValueError, match="both"):
            tf.reduce_join(["a"], axis=0, reduction_indices=0)
        with pytest.raises(tf.errors.UnimplementedError, match="SparseTensor"):
            tf.strings.split(["a"], result_type="RaggedTensor")


def test_the_case_of_utf8_text_is_changed_as_python_does_it() -> None:
    # Blocks whose letters no later version of Unicode has changed; capital sigmas in all surroundings; malformed bytes.
    letters = [chr(c) for c in (*range(0x20, 0x2C00), *range(0xFB00, 0xFB1D), *range(0x10400, 0x10450))]
    rng = np.random.default_rng(3)
    greek = ["".join(rng.choice(list("ΑΣσ'ʰ -\u0301"), 6)) for _ in range(200)]
    malformed = [
        bytes(b if rng.random() > 0.2 else rng.integers(256) for b in "Größe Σίσυφος ǅ".encode()) for _ in range(50)
    ]
    texts = [" ".join(letters).encode(), *(text.encode() for text in greek), *malformed]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.string, [None])
        lower, upper = session.run([tf.strings.lower(x, "utf-8"), tf.strings.upper(x, "utf-8")], {x: texts})
    assert list(lower) == [text.decode("utf-8", "replace").lower().encode() for text in texts]
    assert list(upper) == [text.decode("utf-8", "replace").upper().encode() for text in texts]
