"""Writes tests/data/checkpoints with TensorFlow: `<a Python with TensorFlow> tests/data/make_checkpoints.py`.

The tests import `tensors`, `SLICES` and `weights` from here, and compare what Thalweg reads and writes.
"""

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FOLDER = Path(__file__).parent / "checkpoints"
TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bfloat16"


def tensors() -> dict[str, Any]:
    """One tensor of each type, and odd shapes, in the order in which they are saved."""
    rng = np.random.default_rng(7)
    out: dict[str, Any] = {}
    for name in TYPES.split():
        kind = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        values = rng.integers(0, 100, (3, 2))
        out[f"type/{name}"] = values.astype(kind) + (kind.type(1j) if kind.kind == "c" else 0)
    out["type/bool"] = out["type/bool"].astype(bool)
    out["type/string"] = np.array([[b"", b"a"], [b"\x00\xff", b"long " * 100]], object)
    out["scalar"] = np.float32(3.25)
    out["string scalar"] = np.array(b"text", object)
    out["empty"] = np.zeros((0, 3), np.float32)
    out["no strings"] = np.zeros((0,), object)
    out["a/b/c/d/e_1"] = np.arange(5, dtype=np.int64)
    out["zero"] = np.zeros(1, np.int8)
    out["deep"] = np.arange(8, dtype=np.float32).reshape(1, 2, 1, 2, 1, 2)
    out["long"] = np.arange(5000, dtype=np.float32)
    return out


# Name, shape and slice, value: the parts of four tensors, not in order.
SLICES: list[tuple[str, str, Any]] = [
    ("rows", "4 2 2,2:0,2", np.full((2, 2), 2.0)),
    ("rows", "4 2 0,2:0,2", np.full((2, 2), 1.0)),
    ("columns", "2 300 -:0,100", np.arange(200.0).reshape(2, 100)),
    ("columns", "2 300 -:100,200", np.arange(400.0).reshape(2, 200)),
    ("whole", "3 -", np.arange(3.0)),
    ("far", "10000000 9999990,10", np.arange(10.0)),
    ("far", "10000000 70,130", np.arange(130.0)),
    ("words", "3 0,1", np.array([b"x"], object)),
    ("words", "3 1,2", np.array([b"y", b"z" * 300], object)),
]


# The types that TensorFlow's writer of the old format lacks.
NEW_TYPES = ("type/bfloat16", "type/uint32", "type/uint64")


def weights() -> dict[str, Any]:
    """The variables of the small networks."""
    rng = np.random.default_rng(3)
    shapes = {"filter": (3, 3, 1, 4), "bias": (4,), "dense": (64, 3)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def network(tf: Any, use_resource: bool) -> tuple[Any, Any]:
    """A convolution, a pooling and a dense layer, in TensorFlow or in Thalweg."""
    values = weights()
    x = tf.placeholder(tf.float32, [None, 8, 8, 1], name="x")
    with tf.variable_scope("net", use_resource=use_resource):
        kernel, bias, dense = (tf.get_variable(name, initializer=values[name]) for name in ("filter", "bias", "dense"))
    y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"), bias))
    y = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    y = tf.nn.softmax(tf.matmul(tf.reshape(y, [-1, 64]), dense), name="y")
    return x, y


def inputs() -> Any:
    """A batch for the networks."""
    return np.random.default_rng(5).normal(size=(2, 8, 8, 1)).astype(np.float32)


def write_table_model(tf: Any) -> None:
    """A model with a table of a file: the file has a relative name, since its name becomes part of the graph."""
    before = os.getcwd()
    os.chdir(FOLDER)
    vocabulary = Path("words.txt")
    vocabulary.write_text("red\ngreen\nblue\n")
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                str(vocabulary), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ), -1,
        )  # fmt: skip
        word = tf.placeholder(tf.string, [None], name="word")
        number = tf.identity(table.lookup(word), name="number")
        session.run(tf.tables_initializer())
        tf.saved_model.simple_save(session, "table_model", {"word": word}, {"number": number}, tf.tables_initializer())
    vocabulary.unlink()
    os.chdir(before)


def main() -> None:
    """Writes the files."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    FOLDER.mkdir(exist_ok=True)
    with tf.Graph().as_default(), tf.Session() as session:
        values = tensors()
        names = list(values)
        feeds = [tf.placeholder(tf.as_dtype(v.dtype) if v.dtype != object else tf.string) for v in values.values()]
        save = tf.raw_ops.SaveV2(
            prefix=str(FOLDER / "types"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=feeds
        )
        session.run(save, dict(zip(feeds, values.values(), strict=True)))
        save = tf.raw_ops.SaveV2(
            prefix=str(FOLDER / "slices"),
            tensor_names=[name for name, _, _ in SLICES],
            shape_and_slices=[spec for _, spec, _ in SLICES],
            tensors=[tf.constant(value) for _, _, value in SLICES],
        )
        session.run(save)
        # The format from before TensorFlow 0.12.
        old = [name for name in names if name not in NEW_TYPES]
        save = tf.raw_ops.SaveSlices(
            filename=str(FOLDER / "old_types"), tensor_names=old, shapes_and_slices=[""] * len(old),
            data=[feeds[names.index(name)] for name in old],
        )  # fmt: skip
        session.run(save, dict(zip(feeds, values.values(), strict=True)))
        for shard in range(2):  # The slices of each tensor are spread over the two files.
            mine = SLICES[shard::2]
            save = tf.raw_ops.SaveSlices(
                filename=str(FOLDER / f"old_slices-{shard:05d}-of-00002"),
                tensor_names=[name for name, _, _ in mine],
                shapes_and_slices=[spec for _, spec, _ in mine],
                data=[tf.constant(value) for _, _, value in mine],
            )
            session.run(save)
    for kind, use_resource in (("reference", False), ("resource", True)):
        with tf.Graph().as_default(), tf.Session() as session:
            x, y = network(tf, use_resource)
            session.run(tf.global_variables_initializer())
            tf.train.Saver().save(session, str(FOLDER / f"{kind}_net"), write_state=False)
            tf.saved_model.simple_save(session, str(FOLDER / f"{kind}_model"), {"x": x}, {"y": y})
            np.save(FOLDER / "y.npy", session.run(y, {x: inputs()}))
    write_table_model(tf)


if __name__ == "__main__":
    main()
