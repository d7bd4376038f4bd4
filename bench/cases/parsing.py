"""Parsing and looking up: 100,000 Examples, 100,000 CSV records, a million strings in a table.

The strings are kept in a variable, so that neither framework is timed on converting Python objects. All cases reduce
what they parse to a number, which both frameworks have to agree on.
"""

import struct

import numpy as np

from case import Case, session

ORDER = 9
EXAMPLES = 100_000
RECORDS = 100_000
KEYS = 1_000_000
VOCABULARY = 50_000


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def example(rng, i):
    """An example of a click log: a label, a few dense numbers, some ids and words, and features that are not parsed."""
    numbers = rng.random(8, np.float32).tobytes()
    ids = b"".join(varint(int(v)) for v in rng.integers(0, 1 << 20, 1 + i % 5))
    words = b"".join(field(1, b"word%d" % v) for v in rng.integers(0, 1000, i % 3))
    features = {
        b"label": field(3, field(1, bytes([i & 1]))),
        b"numbers": field(2, field(1, numbers)),
        b"weight": field(2, field(1, struct.pack("<f", 0.5))),
        b"ids": field(3, field(1, ids)),
        b"words": field(1, words),
        b"user": field(1, field(1, b"user-%08d" % i)),
        b"unused": field(3, field(1, varint(i))),
    }
    return field(1, b"".join(field(1, field(1, key) + field(2, value)) for key, value in features.items()))


def strings(tf, values):
    """A variable of strings, and the feed that its initializer needs."""
    source = tf.placeholder(tf.string, [len(values)])
    return tf.Variable(source, trainable=False), {source: np.array(values, object)}


def parse_example(tf, setting):
    rng = np.random.default_rng(1)
    rows = [example(rng, i) for i in range(EXAMPLES)]
    graph = tf.Graph()
    with graph.as_default():
        serialized, feed = strings(tf, rows)
        parsed = tf.parse_example(
            serialized,
            {
                "label": tf.FixedLenFeature([], tf.int64),
                "numbers": tf.FixedLenFeature([8], tf.float32),
                "weight": tf.FixedLenFeature([], tf.float32, 1.0),
                "ids": tf.VarLenFeature(tf.int64),
                "words": tf.VarLenFeature(tf.string),
                "user": tf.FixedLenFeature([], tf.string),
            },
        )
        total = tf.stack(
            [
                tf.reduce_sum(tf.cast(parsed["label"], tf.float32)),
                tf.reduce_mean(parsed["numbers"]),
                tf.reduce_sum(parsed["weight"]),
                tf.cast(tf.size(parsed["ids"].values), tf.float32),
                tf.cast(tf.size(parsed["words"].values), tf.float32),
                tf.cast(tf.size(parsed["user"]), tf.float32),
            ]
        )
    sess = session(tf, setting, graph)
    sess.run(serialized.initializer, feed)
    return lambda: sess.run(total)


def parse_single_example(tf, setting):
    row = example(np.random.default_rng(1), 5)
    graph = tf.Graph()
    with graph.as_default():
        serialized = tf.placeholder(tf.string, [])
        parsed = tf.parse_single_example(
            serialized, {"numbers": tf.FixedLenFeature([8], tf.float32), "label": tf.FixedLenFeature([], tf.int64)}
        )
    sess = session(tf, setting, graph)
    return lambda: sess.run(parsed["numbers"], {serialized: row})


def decode_csv(tf, setting):
    rng = np.random.default_rng(2)
    rows = [f'{i},{rng.random():.6f},"name, {i}",{rng.integers(1 << 40)},{rng.random():.3f}' for i in range(RECORDS)]
    graph = tf.Graph()
    with graph.as_default():
        records, feed = strings(tf, rows)
        columns = tf.decode_csv(records, [[0], [0.0], [""], tf.constant([0], tf.int64), [0.0]])
        total = tf.stack([tf.reduce_sum(columns[1]), tf.reduce_mean(tf.cast(columns[3], tf.float32) / 1e10),
                          tf.reduce_sum(columns[4]), tf.cast(tf.size(columns[2]), tf.float32)])  # fmt: skip
    sess = session(tf, setting, graph)
    sess.run(records.initializer, feed)
    return lambda: sess.run(total)


def table_lookup(tf, setting):
    rng = np.random.default_rng(3)
    vocabulary = np.array([b"token-%d" % (i * 7919) for i in range(VOCABULARY)], object)
    graph = tf.Graph()
    with graph.as_default():
        # One in ten is not in the table.
        keys, feed = strings(tf, vocabulary[rng.integers(0, VOCABULARY, KEYS)])
        words = tf.placeholder(tf.string, [VOCABULARY])
        initializer = tf.lookup.KeyValueTensorInitializer(words[: VOCABULARY * 9 // 10],
                                                          tf.range(VOCABULARY * 9 // 10, dtype=tf.int64))  # fmt: skip
        table = tf.lookup.StaticHashTable(initializer, -1)
        total = tf.reduce_sum(table.lookup(keys))
    sess = session(tf, setting, graph)
    sess.run(keys.initializer, feed)
    sess.run(table.initializer, {words: vocabulary})
    return lambda: sess.run(total)


CASES = {
    "parse_example": Case(
        "parse_example of 100,000 examples (4 dense and 2 sparse features)", parse_example, targets={"tensorflow": 3}
    ),
    "parse_single_example": Case("parse_single_example of one example, fed", parse_single_example,
                                 targets={"tensorflow": 3}),
    "decode_csv": Case("decode_csv of 100,000 records of 5 columns", decode_csv, targets={"tensorflow": 3}),
    "table_lookup": Case("lookup of 1,000,000 strings in a table of 45,000", table_lookup, targets={"tensorflow": 1}),
}  # fmt: skip
