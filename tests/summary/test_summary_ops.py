"""Summary ops: the messages are TensorFlow's, and bad input is refused."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

_RECORDS = json.loads((Path(__file__).parents[1] / "data" / "summaries.json").read_text())


def _array(text: str) -> np.ndarray:
    return np.load(io.BytesIO(base64.b64decode(text)))


def _run(op: str, inputs: list[Any], **attrs: Any) -> Any:
    from thalweg.graph.apply import apply

    placeholders = [tf.placeholder(tf.string if x.dtype.kind in "SO" else tf.as_dtype(x.dtype)) for x in inputs]
    summary = apply(op, *placeholders, **attrs)
    assert summary.shape.as_list() == []
    with tf.Session() as session:
        feeds = dict(zip(placeholders, [x.astype(object) if x.dtype.kind == "S" else x for x in inputs], strict=True))
        return session.run(summary, feeds)


def _pixels(png: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.mark.parametrize("index", range(len(_RECORDS)), ids=lambda i: f"{_RECORDS[i]['op']}-{i}")
def test_summaries_are_those_of_tensorflow(index: int) -> None:
    record = _RECORDS[index]
    expected_bytes = base64.b64decode(record["summary"])
    actual_bytes = _run(record["op"], [_array(text) for text in record["inputs"]], **record["attrs"])
    if record["op"] in ("ScalarSummary", "HistogramSummary", "TensorSummaryV2"):
        assert actual_bytes == expected_bytes
        return
    expected, actual = tf.Summary.FromString(expected_bytes), tf.Summary.FromString(actual_bytes)
    for value, other in zip(actual.value, expected.value, strict=True):
        if record["op"] == "ImageSummary":
            # PNG encoders differ in how well they compress.
            pixels, others = _pixels(value.image.encoded_image_string), _pixels(other.image.encoded_image_string)
            np.testing.assert_array_equal(pixels, others)
            value.image.encoded_image_string = other.image.encoded_image_string = b""
    assert actual == expected


@pytest.mark.parametrize("seed", range(3))
def test_buckets_are_found_like_by_bisection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    limits = [1e-12]
    while limits[-1] * 1.1 < 1e20:
        limits.append(limits[-1] * 1.1)
    limits.append(np.finfo(np.float64).max)
    edges = np.array([-x for x in reversed(limits)] + [0.0] + limits)
    values = np.concatenate(
        [
            rng.standard_normal(2000) * 10.0 ** rng.uniform(-15, 22, 2000),
            edges[rng.integers(1, len(edges) - 1, 500)],
            np.nextafter(edges[rng.integers(1, len(edges) - 1, 500)], -np.inf),
        ]
    )
    values = values[(values == 0) | (np.abs(values) >= np.finfo(np.float64).tiny)]  # Kernels count denormals as 0.
    with tf.Session() as session:
        summary = tf.Summary.FromString(session.run(tf.summary.histogram("h", tf.constant(values))))
    histogram = summary.value[0].histo
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges))
    expected = {edges[i]: c for i, c in enumerate(counts) if c}
    actual = {limit: c for limit, c in zip(histogram.bucket_limit, histogram.bucket, strict=True) if c}
    assert actual == expected
    assert histogram.num == len(values)
    assert histogram.min == values.min()
    assert histogram.max == values.max()


def test_a_merge_keeps_the_order_and_refuses_a_tag_twice() -> None:
    first, second = tf.summary.scalar("a", 1.0), tf.summary.histogram("b", [1.0])
    with tf.Session() as session:
        merged = tf.Summary.FromString(session.run(tf.summary.merge([second, first])))
        assert [value.tag for value in merged.value] == ["b", "a"]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag a"):
            session.run(tf.summary.merge([first, first]))


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 12, b"\x0a\x02\x0a\x09"]
)
def test_a_merge_refuses_what_is_no_summary(data: bytes) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse"):
        session.run(tf.summary.merge([tf.constant(data)]))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "match"),
    [
        ("ScalarSummary", [np.array([b"a", b"b"]), np.zeros(3, np.float32)], {}, "not the same shape"),
        ("ScalarSummary", [np.array(b"a"), np.zeros(2, np.float32)], {}, "tag 'a'"),
        ("HistogramSummary", [np.array(b"h"), np.array([np.nan])], {}, "Nan in summary histogram for: h"),
        ("HistogramSummary", [np.array(b"h"), np.array([np.inf], np.float32)], {}, "Infinity"),
        ("HistogramSummary", [np.array([b"h", b"i"]), np.zeros(2)], {}, "scalar"),
        ("ImageSummary", [np.array(b"i"), np.zeros((2, 3), np.float32)], {}, "4-D"),
        ("ImageSummary", [np.array(b"i"), np.zeros((1, 3, 3, 2), np.float32)], {}, "1, 3, or 4"),
        ("ImageSummary", [np.array(b"i"), np.zeros((1, 0, 3, 1), np.float32)], {}, "0 by 3"),
        ("ImageSummary", [np.array(b"i"), np.zeros((1, 2, 2, 3), np.float32)],
         {"bad_color": np.zeros(2, np.uint8)}, "bad_color"),
        ("AudioSummaryV2", [np.array(b"s"), np.zeros((1, 2, 3, 4), np.float32), np.float32(1)], {}, "3-D"),
        ("AudioSummaryV2", [np.array(b"s"), np.zeros((1, 2), np.float32), np.float32(0)], {}, "sample_rate"),
        ("AudioSummaryV2", [np.array(b"s"), np.zeros((1, 2, 0), np.float32), np.float32(1)], {}, "num_channels"),
        ("TensorSummaryV2", [np.array(b"t"), np.zeros(2), np.array(b"\xff\xff")], {}, "SummaryMetadata"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(op: str, inputs: list[Any], attrs: dict[str, Any], match: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        _run(op, inputs, **attrs)


def test_names_and_tags_follow_scopes_and_families() -> None:
    with tf.name_scope("outer"):
        plain = tf.summary.scalar("lo ss", 1.0)
        family = tf.summary.scalar("x", 1.0, family="fam")
        image = tf.summary.image("im", tf.zeros([1, 2, 2, 1]), max_outputs=1)
    assert [t.op.name for t in (plain, family, image)] == ["outer/lo_ss", "outer/fam/x", "outer/im"]
    with tf.Session() as session:
        tags = [v.tag for v in tf.Summary.FromString(session.run(tf.summary.merge_all())).value]
    assert tags == ["outer/lo_ss", "fam/outer/fam/x", "outer/im/image"]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [plain, family, image]


def test_collections_and_merge_all() -> None:
    assert tf.summary.merge_all() is None
    a = tf.summary.scalar("a", 1.0, collections=["mine"])
    assert tf.summary.merge_all() is None
    merged = tf.summary.merge_all("mine")
    assert merged is not None
    assert list(merged.op.inputs) == [a]
    assert merged.op.name == "Merge/MergeSummary"
    with pytest.raises(ValueError, match="inputs"):
        tf.summary.merge([])
    with pytest.raises(ValueError, match="string"):
        tf.summary.text("t", tf.constant(1.0))


def test_text_and_tensor_summaries_name_their_plugin() -> None:
    text = tf.summary.text("notes", tf.constant(["one", "two"]))
    described = tf.summary.tensor_summary("t", tf.constant([1.5]), display_name="T", summary_description="about t")
    with tf.Session() as session:
        value = tf.Summary.FromString(session.run(text)).value[0]
        assert value.metadata.plugin_data.plugin_name == "text"
        assert list(value.tensor.string_val) == [b"one", b"two"]
        value = tf.Summary.FromString(session.run(described)).value[0]
        assert (value.metadata.display_name, value.metadata.summary_description) == ("T", "about t")


def test_the_old_names_take_the_old_arguments() -> None:
    old = [
        tf.scalar_summary("tag with blanks", 1.0),
        tf.scalar_summary(["p", "q"], [1.0, 2.0], name="two"),
        tf.histogram_summary("h", [1.0]),
        tf.image_summary("i", tf.zeros([1, 1, 1, 1]), max_images=1),
    ]
    with tf.Session() as session:
        summary = tf.Summary.FromString(session.run(tf.merge_all_summaries()))
        merged = session.run(tf.merge_summary(old[:2]))
    assert [v.tag for v in summary.value] == ["tag with blanks", "p", "q", "h", "i/image"]
    assert len(tf.Summary.FromString(merged).value) == 3
    assert old[1].op.name == "two"
