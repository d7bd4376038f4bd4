"""Makes summaries.json: what TensorFlow's summary ops give, for tests/summary. Run it with TensorFlow installed.

Each record: an op, its inputs (NumPy files in base64) and attributes, and the serialized Summary.
"""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np


def cases() -> list[tuple[str, list[np.ndarray], dict[str, object]]]:
    rng = np.random.default_rng(7)
    spread = (rng.standard_normal(400) * 10.0 ** rng.integers(-14, 24, 400)).astype(np.float64)
    images = rng.uniform(-1, 3, (2, 5, 4, 3)).astype(np.float32)
    broken = images.copy()
    broken[0, 1, 2, 0] = np.nan
    broken[1, 0, 0, 2] = np.inf
    return [
        ("ScalarSummary", [np.array(b"a"), np.float32(1.5)], {}),
        ("ScalarSummary", [np.array([b"a", b"b/c"]), np.array([0, -7], np.int64)], {}),
        ("ScalarSummary", [np.array([b"x"]), np.array([2.25], np.float16)], {}),
        ("HistogramSummary", [np.array(b"h"), spread], {}),
        ("HistogramSummary", [np.array(b"h"), rng.standard_normal((13, 7)).astype(np.float32)], {}),
        ("HistogramSummary", [np.array(b"h"), np.array([0.0, -0.0, 1.0, 1.1, -1e-12, 1e-12, 1e30, -1e30])], {}),
        ("HistogramSummary", [np.array(b"h"), np.arange(-5, 6, dtype=np.int32)], {}),
        ("HistogramSummary", [np.array(b"h"), np.zeros(0, np.float32)], {}),
        ("HistogramSummary", [np.array(b"h"), np.array([255, 0, 3], np.uint8)], {}),
        ("ImageSummary", [np.array(b"i"), images], {"max_images": 2}),
        ("ImageSummary", [np.array(b"i"), np.abs(images)], {"max_images": 1}),
        ("ImageSummary", [np.array(b"i"), broken], {"max_images": 3}),
        ("ImageSummary", [np.array(b"i"), np.zeros((1, 2, 2, 1), np.float32)], {}),
        ("ImageSummary", [np.array(b"i"), np.full((1, 2, 2, 1), -1e-9, np.float32)], {}),
        ("ImageSummary", [np.array(b"i"), rng.integers(0, 256, (2, 3, 4, 4)).astype(np.uint8)], {}),
        ("ImageSummary", [np.array(b"i"), rng.standard_normal((1, 3, 4, 1)).astype(np.float64)], {}),
        ("AudioSummaryV2", [np.array(b"s"), rng.uniform(-1.2, 1.2, (2, 30, 2)).astype(np.float32), np.float32(8000)],
         {}),
        ("AudioSummaryV2", [np.array(b"s"), rng.uniform(-1, 1, (1, 9)).astype(np.float32), np.float32(44100)],
         {"max_outputs": 1}),
        ("TensorSummaryV2", [np.array(b"t"), np.arange(6, dtype=np.int32).reshape(2, 3), np.array(b"")], {}),
        ("TensorSummaryV2", [np.array(b"t"), np.array([b"x", b"yz"]), np.array(b"\n\x06\n\x04text")], {}),
    ]  # fmt: skip


def _text(array: np.ndarray) -> str:
    out = io.BytesIO()
    np.save(out, np.asarray(array))
    return base64.b64encode(out.getvalue()).decode()


def main() -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    records = []
    with tf.Session() as session:
        for op, inputs, attrs in cases():
            names = _arguments(op)
            out = getattr(tf.raw_ops, op)(**dict(zip(names, [tf.constant(x) for x in inputs], strict=True)), **attrs)
            summary = base64.b64encode(session.run(out)).decode()
            records.append({"op": op, "inputs": [_text(x) for x in inputs], "attrs": attrs, "summary": summary})
    Path(__file__).with_name("summaries.json").write_text(json.dumps(records, indent=1))


def _arguments(op: str) -> list[str]:
    return {
        "ScalarSummary": ["tags", "values"],
        "HistogramSummary": ["tag", "values"],
        "ImageSummary": ["tag", "tensor"],
        "AudioSummaryV2": ["tag", "tensor", "sample_rate"],
        "TensorSummaryV2": ["tag", "tensor", "serialized_summary_metadata"],
    }[op]


if __name__ == "__main__":
    main()
