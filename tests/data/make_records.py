"""Makes tests/data/records: small TFRecord files and Examples as TensorFlow writes them. Needs TensorFlow installed."""

from __future__ import annotations

import os
from pathlib import Path

RECORDS = [b"", b"one", b"two" * 100, bytes(range(256)) * 4, b"\n\r\0"]


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    folder = Path(__file__).parent / "records"
    options = {
        "plain": None,
        "zlib": tf.python_io.TFRecordOptions("ZLIB"),
        "gzip": tf.python_io.TFRecordOptions("GZIP"),
        "zlib_small_window": tf.python_io.TFRecordOptions("ZLIB", window_bits=9, compression_level=1, mem_level=1),
        "gzip_stored": tf.python_io.TFRecordOptions("GZIP", compression_level=0),
    }
    for name, option in options.items():
        with tf.python_io.TFRecordWriter(str(folder / name), option) as writer:
            for record in RECORDS:
                writer.write(record)
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 0, 1, 2**62]))
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, -1e30]))
    texts = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"", b"\xff\0"]))
    features = tf.train.Features(
        feature={"numbers": numbers, "floats": floats, "texts": texts, "none": tf.train.Feature()}
    )
    lists = tf.train.FeatureLists(feature_list={"steps": tf.train.FeatureList(feature=[numbers, texts])})
    messages = {
        "example": tf.train.Example(features=features),
        "sequence_example": tf.train.SequenceExample(context=features, feature_lists=lists),
    }
    for name, message in messages.items():
        (folder / name).write_bytes(message.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
