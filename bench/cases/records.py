"""Reading and writing TFRecord files: 1 GB in records of 1 KB (quick: 64 MB), from the page cache.

Through a reader and a queue, a thousand records a step and one a step, and in Python, one by one.
"""

import os
import random
import tempfile
from pathlib import Path

from case import Case, session, with_bytes

ORDER = 20
RECORD = 1024
SMALL = 100
AT_ONCE = 1000


def record_file(tf, count, size):
    """A file of `count` records of `size` bytes, made once for all frameworks and runs."""
    path = Path(tempfile.gettempdir()) / f"thalweg-bench-{os.getuid()}-{count}x{size}.tfrecords"
    if not path.exists():
        content = random.Random(0).randbytes(size)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with tf.python_io.TFRecordWriter(str(unfinished)) as writer:
            for i in range(count):
                writer.write(i.to_bytes(8, "little") + content[8:])
        unfinished.rename(path)
    return str(path)


def count_of(setting):
    return (1 << 26 if setting.quick else 1 << 30) // RECORD


def records_reader(tf, setting):
    count = count_of(setting)
    path = record_file(tf, count, RECORD)
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.FIFOQueue(10, tf.string)
        put = queue.enqueue(path)
        _, values = tf.TFRecordReader().read_up_to(queue, AT_ONCE)
        size = tf.reduce_sum(tf.strings.length(values))
    sess = session(tf, setting, graph)
    read, start = sess.make_callable(size), sess.make_callable(put)

    def step():
        start()
        return float(sum(read() for _ in range(-(-count // AT_ONCE))))

    return with_bytes(step, count * RECORD)


def records_one_by_one(tf, setting):
    count = 2_000 if setting.quick else 20_000
    path = record_file(tf, count, SMALL)
    graph = tf.Graph()
    with graph.as_default():
        queue = tf.FIFOQueue(10, tf.string)
        put = queue.enqueue(path)
        _, value = tf.TFRecordReader().read(queue)
    sess = session(tf, setting, graph)
    read, start = sess.make_callable(value), sess.make_callable(put)

    def step():
        start()
        return float(sum(len(read()) for _ in range(count)))

    return step


def records_iterator(tf, setting):
    count = count_of(setting)
    path = record_file(tf, count, RECORD)
    return with_bytes(lambda: float(sum(map(len, tf.python_io.tf_record_iterator(path)))), count * RECORD)


def small_records_iterator(tf, setting):
    path = record_file(tf, 50_000 if setting.quick else 1_000_000, SMALL)
    return lambda: float(sum(map(len, tf.python_io.tf_record_iterator(path))))


def records_writer(tf, setting):
    count = 20_000 if setting.quick else 200_000
    content = random.Random(0).randbytes(SMALL)
    path = os.path.join(tempfile.mkdtemp(), "records")

    def step():
        with tf.python_io.TFRecordWriter(path) as writer:
            for _ in range(count):
                writer.write(content)
        return float(os.path.getsize(path))

    return step


def compressed_records(tf, setting):
    count = 20_000 if setting.quick else 200_000
    path = record_file(tf, count, SMALL) + ".gz"
    options = tf.python_io.TFRecordOptions("GZIP")
    if not os.path.exists(path):
        words = [random.Random(i).randbytes(6).hex().encode() for i in range(500)]
        chosen = random.Random(1)
        with tf.python_io.TFRecordWriter(path + f".{os.getpid()}", options) as writer:
            for _ in range(count):
                writer.write(b" ".join(chosen.choices(words, k=40)))
        os.rename(path + f".{os.getpid()}", path)
    return lambda: float(sum(map(len, tf.python_io.tf_record_iterator(path, options))))


CASES = {
    "records_reader": Case(
        "TFRecordReader through a queue, records of 1 KB, 1,000 a step", records_reader, targets={"tensorflow": 1}
    ),
    "records_one_by_one": Case(
        "TFRecordReader through a queue, records of 100 bytes, one a step",
        records_one_by_one,
        targets={"tensorflow": 3},
    ),
    "records_iterator": Case("tf_record_iterator, records of 1 KB", records_iterator, targets={"tensorflow": 1}),
    "small_records_iterator": Case(
        "tf_record_iterator, records of 100 bytes", small_records_iterator, targets={"tensorflow": 3}
    ),
    "compressed_records": Case("tf_record_iterator, gzip", compressed_records, targets={"tensorflow": 1}),
    "records_writer": Case("TFRecordWriter, records of 100 bytes", records_writer, targets={"tensorflow": 1}),
}
