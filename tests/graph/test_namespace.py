"""The public namespace: assembled from exports, short to import, with protobuf classes on demand."""

from __future__ import annotations

import subprocess
import sys

import pytest

import thalweg as tf
from thalweg.graph.definitions import op_registry


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_every_export_is_bound_where_its_name_says() -> None:
    for dotted, value in op_registry.exports().items():
        found: object = tf
        for part in dotted.split("."):
            found = getattr(found, part)
        # Once a program uses ragged tensors, some functions are behind one that dispatches.
        assert found is value or getattr(found, "__wrapped__", None) is value, dotted


def test_import_leaves_protobuf_and_the_core_alone() -> None:
    code = (
        "import sys; sys.path[:0] = ['src']; import thalweg;"
        "print([m for m in ('google.protobuf', 'tensorboard', 'thalweg._core', 'scipy', 'grpc') if m in sys.modules])"
    )
    assert _python(code) == "[]"


def test_protobuf_classes_come_on_demand() -> None:
    for name in ("GraphDef", "NodeDef", "AttrValue", "ConfigProto", "RunOptions", "RunMetadata", "GPUOptions",
                 "GraphOptions", "OptimizerOptions", "Summary", "SessionLog", "HistogramProto", "Event",
                 "MetaGraphDef"):  # fmt: skip
        assert getattr(tf, name)().SerializeToString() == b""
    assert tf.train.SaverDef.__name__ == "SaverDef"


def test_compat_v1_is_the_package_itself() -> None:
    assert tf.compat.v1 is tf
    assert (
        _python("import sys; sys.path[:0] = ['src']; import thalweg.compat.v1 as tf; print(tf.add.__name__)") == "add"
    )
    assert tf.disable_v2_behavior() is None
    assert (tf.compat.as_bytes("é"), tf.compat.as_text("é".encode()), tf.compat.as_str_any(3)) == (
        "é".encode(),
        "é",
        "3",
    )
    with pytest.raises(TypeError):
        tf.compat.as_bytes(3)


def test_a_missing_name_is_an_attribute_error_with_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"Did you mean 'tf\.placeholder'"):
        _ = tf.plaecholder
    assert not hasattr(tf, "_no_such_name")


def test_deprecated_spellings_still_work() -> None:
    for old, new in op_registry.deprecated_exports().items():
        assert old in op_registry.exports() and new in op_registry.exports()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32)
        assert tf.mul(x, x).op.type == "Mul"
