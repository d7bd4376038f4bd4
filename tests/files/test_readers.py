"""Readers: records of the files that a queue names, without holding a thread."""

from __future__ import annotations

import os
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.queues.waiting import Begun

import thalweg as tf
from thalweg import errors
from thalweg.ops.files.record_format import framed


class Work:
    """A reader with its queue and a session, in some working directory."""

    def __init__(self, reader: tf.ReaderBase, files: list[str], close: bool = True) -> None:
        self.reader = reader
        self.queue = tf.FIFOQueue(100, tf.string, shapes=[()])
        self.one = reader.read(self.queue)
        self.counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        self.session = tf.Session()
        if files:
            self.session.run(self.queue.enqueue_many([files]))
        if close:
            self.session.run(self.queue.close())

    def all(self, fetches: Any = None) -> list[Any]:
        """All that the reader gives until the queue ends."""
        out = []
        with pytest.raises(errors.OutOfRangeError, match="is closed and has insufficient elements"):
            while True:
                found = self.session.run(self.one if fetches is None else fetches)
                out.append(tuple(x if isinstance(x, bytes) else x.tolist() for x in found))
        return out


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(b"one\rx\r\n\ntwo\nthree")
    Path("empty").write_bytes(b"")
    Path("b.txt").write_bytes(b"four\n")
    Path("fixed").write_bytes(b"HHabcdefghijFFF")
    Path("fixed.z").write_bytes(zlib.compress(b"HHabcdefghijFFF"))
    Path("records").write_bytes(framed(b"") + framed(b"rec1") + framed(b"rec2rec2"))


# The expected keys, values and counts are TensorFlow's for the same files.
def test_text_lines() -> None:
    work = Work(tf.TextLineReader(), ["a.txt", "empty", "b.txt"])
    assert work.session.run(work.one) == (b"a.txt:1", b"one\rx")
    assert work.session.run(work.counts) == [1, 0]
    assert work.all() == [(b"a.txt:2", b""), (b"a.txt:3", b"two"), (b"a.txt:4", b"three"), (b"b.txt:1", b"four")]
    assert work.session.run(work.counts) == [5, 3]


def test_text_lines_without_headers() -> None:
    work = Work(tf.TextLineReader(skip_header_lines=1), ["a.txt", "empty", "b.txt", "a.txt"])
    rest = [(b"a.txt:2", b""), (b"a.txt:3", b"two"), (b"a.txt:4", b"three")]
    assert work.all() == rest * 2


def test_several_lines_at_once_end_with_their_file() -> None:
    work = Work(tf.TextLineReader(), ["a.txt", "empty", "b.txt"])
    several = work.reader.read_up_to(work.queue, 3)
    assert several.keys.shape.as_list() == [None]
    assert work.all(several) == [
        ([b"a.txt:1", b"a.txt:2", b"a.txt:3"], [b"one\rx", b"", b"two"]),
        ([b"a.txt:4"], [b"three"]),
        ([b"b.txt:1"], [b"four"]),
    ]


def test_reading_no_records_takes_nothing() -> None:
    work = Work(tf.TextLineReader(), ["b.txt"])
    keys, values = work.session.run(work.reader.read_up_to(work.queue, 0))
    assert keys.shape == values.shape == (0,)
    assert work.session.run(work.counts) == [0, 0]
    with pytest.raises(errors.InvalidArgumentError, match="negative, got -1"):
        work.session.run(work.reader.read_up_to(work.queue, -1))
    assert work.all() == [(b"b.txt:1", b"four")]


def test_whole_files() -> None:
    work = Work(tf.WholeFileReader(), ["b.txt", "empty"])
    assert work.all() == [(b"b.txt", b"four\n"), (b"empty", b"")]
    assert work.session.run(work.counts) == [2, 2]


def test_whole_files_come_one_at_a_time() -> None:
    work = Work(tf.WholeFileReader(), ["b.txt", "empty"])
    assert work.all(work.reader.read_up_to(work.queue, 5)) == [([b"b.txt"], [b"four\n"]), ([b"empty"], [b""])]


def test_the_identity_reader_gives_the_work() -> None:
    work = Work(tf.IdentityReader(), ["x", "no file"])
    assert work.all() == [(b"x", b"x"), (b"no file", b"no file")]
    assert work.session.run(work.reader.serialize_state()) == b"\x08\x02\x10\x02\x18\x02"


@pytest.mark.parametrize(("name", "encoding"), [("fixed", None), ("fixed.z", "ZLIB")])
def test_fixed_length_records(name: str, encoding: str | None) -> None:
    def values(*sizes: int) -> list[bytes]:
        found = Work(tf.FixedLengthRecordReader(*sizes, encoding=encoding), [name, name]).all()
        half = len(found) // 2
        assert found[:half] == found[half:]
        assert [key for key, _ in found[:half]] == [f"{name}:{i}".encode() for i in range(half)]
        return [value for _, value in found[:half]]

    assert values(3, 2, 3) == [b"abc", b"def", b"ghi"]
    assert values(5, 2, 3, 2) == [b"abcde", b"cdefg", b"efghi"]
    assert values(2, 2, 3, 3) == [b"ab", b"de", b"gh"]
    assert values(20) == []


def test_records() -> None:
    expected = [(b"records:0", b""), (b"records:16", b"rec1"), (b"records:36", b"rec2rec2")]
    assert Work(tf.TFRecordReader(), ["records"]).all() == expected
    Path("records").write_bytes(zlib.compress(Path("records").read_bytes()))
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.ZLIB)
    assert Work(tf.TFRecordReader(options=options), ["records"]).all() == expected


def test_damaged_records_are_named_with_file_and_offset() -> None:
    data = Path("records").read_bytes()
    Path("records").write_bytes(data[:30] + b"\xff" + data[31:])
    work = Work(tf.TFRecordReader(), ["records", "b.txt"])
    assert work.session.run(work.one) == (b"records:0", b"")
    for _ in range(2):  # The error stays at the next read.
        with pytest.raises(errors.DataLossError, match=r"records; corrupted record .* at 16"):
            work.session.run(work.one)


@pytest.mark.parametrize(
    ("make", "record"),
    [(tf.TextLineReader, (b"b.txt:1", b"four")), (tf.WholeFileReader, (b"b.txt", b"four\n"))],
)
def test_files_that_cannot_be_opened_are_errors_once(make: Any, record: tuple[bytes, bytes]) -> None:
    work = Work(make(), ["nowhere", "b.txt"])
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        work.session.run(work.one)
    assert work.all() == [record]
    os.mkdir("folder")
    with pytest.raises(errors.FailedPreconditionError, match=r"folder.*directory"):
        work = Work(tf.TFRecordReader(), ["folder"])
        work.session.run(work.one)


def test_reset_forgets_work_and_counts() -> None:
    work = Work(tf.TextLineReader(), ["a.txt", "b.txt"])
    work.session.run(work.one)
    work.session.run(work.reader.reset())
    assert work.session.run(work.counts) == [0, 0]
    assert work.all() == [(b"b.txt:1", b"four")]


def test_state_moves_to_another_reader() -> None:
    first = Work(tf.WholeFileReader(), ["a.txt", "b.txt", "empty"], close=False)
    assert first.reader.supports_serialize
    first.session.run(first.one)
    state = first.session.run(first.reader.serialize_state())
    assert state == b"\x08\x01\x10\x01\x18\x01"
    second = Work(tf.WholeFileReader(), [])
    second.session.run(second.reader.restore_state(state))
    assert second.session.run(second.counts) == [1, 1]
    # Work in progress is part of the state.
    second.session.run(second.reader.restore_state(b"\x08\x02\x10\x01\x18\x01\x22\x05b.txt"))
    assert second.session.run(second.one) == (b"b.txt", b"four\n")
    assert second.session.run(second.counts) == [2, 2]


@pytest.mark.parametrize("state", [b"abc", b"\x08\x05\x10\x02", b"\x08\x01\x10\x02", b"\x08" + b"\xff" * 9 + b"\x01"])
def test_states_that_make_no_sense(state: bytes) -> None:
    work = Work(tf.IdentityReader(), [])
    with pytest.raises(errors.InvalidArgumentError, match=r"identity_reader|IdentityReader"):
        work.session.run(work.reader.restore_state(state))
    assert work.session.run(work.counts) == [0, 0]


def test_most_readers_have_no_state_to_save() -> None:
    work = Work(tf.TFRecordReader(), [])
    assert not work.reader.supports_serialize
    for op in (work.reader.serialize_state(), work.reader.restore_state(b"")):
        with pytest.raises(errors.UnimplementedError):
            work.session.run(op)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tf.FixedLengthRecordReader(0), "record_bytes"),
        (lambda: tf.FixedLengthRecordReader(2, header_bytes=-1), "header_bytes"),
        (lambda: tf.FixedLengthRecordReader(2, footer_bytes=-1), "footer_bytes"),
        (lambda: tf.FixedLengthRecordReader(2, hop_bytes=-1), "hop_bytes"),
        (lambda: tf.FixedLengthRecordReader(2, encoding="X"), "'X'"),
    ],
)
def test_attributes_that_make_no_sense(make: Any, match: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        Work(make(), ["fixed"]).all()


def test_a_queue_of_something_else_is_refused() -> None:
    reader = tf.IdentityReader()
    numbers, pairs = tf.FIFOQueue(3, tf.int32), tf.FIFOQueue(3, [tf.string, tf.string])
    with tf.Session() as session:
        session.run([numbers.enqueue(1), pairs.enqueue(["a", "b"])])
        for queue in (numbers, pairs):
            with pytest.raises(errors.InvalidArgumentError, match="one component of type string"):
                session.run(reader.read(queue))
        vectors = tf.FIFOQueue(3, tf.string)
        session.run(vectors.enqueue([["a", "b"]]))
        with pytest.raises(errors.InvalidArgumentError, match="one string at a time"):
            session.run(reader.read(vectors))
        with pytest.raises(errors.InvalidArgumentError, match="FIFOQueue"):
            session.run(tf.ReaderBase(vectors.queue_ref).num_records_produced())
        with pytest.raises(errors.InvalidArgumentError, match="IdentityReader"):
            session.run(reader.read(reader.reader_ref))


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_reads_wait_for_work_in_the_order_of_their_arrival() -> None:
    work = Work(tf.IdentityReader(), [], close=False)
    step = work.session.make_callable(work.one.value)
    found: list[bytes] = []
    threads = []
    for _ in range(5):
        threads.append(threading.Thread(target=lambda: found.append(step())))
        threads[-1].start()
    time.sleep(0.05)
    assert work.session.run(work.counts) == [0, 0], "counts can be asked for while reads wait"
    work.session.run(work.queue.enqueue_many([[b"1", b"2", b"3", b"4", b"5"]]))
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [b"1", b"2", b"3", b"4", b"5"]
    assert work.session.run(work.counts) == [5, 5]


def test_waiting_reads_end_with_their_time_limit_and_leave_the_others() -> None:
    work = Work(tf.IdentityReader(), [], close=False)
    found: list[Any] = []
    patient = threading.Thread(target=lambda: found.append(work.session.run(work.one.value)))
    patient.start()
    wait_until(lambda: work.session.run(work.counts[0]) == 0)
    for _ in range(3):
        with pytest.raises((errors.DeadlineExceededError, errors.CancelledError)):
            work.session.run(work.one, options=tf.RunOptions(timeout_in_ms=30))
    work.session.run(work.queue.enqueue("for the patient one"))
    patient.join(20)
    assert found == [b"for the patient one"]


@pytest.mark.parametrize("closed", ["session", "queue"])
def test_closing_the_session_or_the_queue_ends_waiting_reads(closed: str) -> None:
    work = Work(tf.TextLineReader(), [], close=False)
    failures: list[BaseException] = []
    begun = Begun()

    def read() -> None:
        try:
            work.session.run([work.one, begun.zero])
        except errors.OpError as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(4)
    if closed == "session":
        work.session.close()
    else:
        work.session.run(work.queue.close())
    for thread in threads:
        thread.join(20)
    expected = errors.CancelledError if closed == "session" else errors.OutOfRangeError
    assert [type(failure) for failure in failures] == [expected] * 4


def test_many_threads_read_each_record_once() -> None:
    names = [f"part{i}" for i in range(20)]
    for name in names:
        Path(name).write_bytes(b"".join(framed(f"{name} {i}".encode()) for i in range(50)))
    work = Work(tf.TFRecordReader(), [], close=False)
    several = work.reader.read_up_to(work.queue, 7)
    found: list[bytes] = []

    def consume(fetch: Any) -> None:
        while True:
            try:
                value = work.session.run(fetch)
            except errors.OutOfRangeError:
                return
            found.extend([value] if isinstance(value, bytes) else value.tolist())

    threads = [threading.Thread(target=consume, args=(f,)) for f in [work.one.value, several.values] * 3]
    for thread in threads:
        thread.start()
    put, path = work.queue.enqueue(tf.placeholder(tf.string)), work.session.graph.get_tensor_by_name("Placeholder:0")
    for name in names:
        work.session.run(put, {path: name})
    work.session.run(work.queue.close())
    for thread in threads:
        thread.join(30)
    assert sorted(found) == sorted(f"{name} {i}".encode() for name in names for i in range(50))
    assert work.session.run(work.counts) == [1000, 20]


def test_readers_share_a_name_in_a_container() -> None:
    def reader() -> tf.ReaderBase:
        return tf.ReaderBase(tf.raw_ops.TextLineReaderV2(container="c", shared_name="shared"))

    queue = tf.FIFOQueue(10, tf.string)
    with tf.Session() as session:
        session.run(queue.enqueue("a.txt"))
        assert session.run(reader().read(queue)) == (b"a.txt:1", b"one\rx")
        assert session.run(reader().read(queue)) == (b"a.txt:2", b"")
        with pytest.raises(errors.InvalidArgumentError, match="already exists as a TextLineReader"):
            session.run(tf.raw_ops.IdentityReaderV2(container="c", shared_name="shared"))
    tf.Session.reset("", ["c"])


def test_readers_by_reference_run_as_resources() -> None:
    queue = tf.raw_ops.FIFOQueue(component_types=[tf.string])
    reader = tf.ReaderBase(tf.raw_ops.TextLineReader(skip_header_lines=2))
    line = reader.read(queue)
    assert line.key.op.type == "ReaderRead"
    with tf.Session() as session:
        session.run(tf.raw_ops.QueueEnqueue(handle=queue, components=[tf.constant("a.txt")]))
        assert session.run(line) == (b"a.txt:3", b"two")
        assert session.run(reader.read_up_to(queue, 2).keys).tolist() == [b"a.txt:4"]
        assert session.run([reader.num_records_produced(), reader.num_work_units_completed()]) == [2, 1]
        session.run(reader.reset())
        assert session.run(reader.num_records_produced()) == 0
