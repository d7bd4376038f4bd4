"""tf.summary of TensorFlow 2: summaries written at once, or when a function runs, by the writer of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from thalweg.version_two.public_names import OTHERWISE, otherwise, tf

_state: dict[str, Any] = {"step": None}


class _Writer:
    """A writer of event files."""

    def __init__(self, logdir: Any, filename_suffix: Any) -> None:
        self._inner = tf.contrib.summary.create_file_writer(str(logdir), filename_suffix=filename_suffix)
        self._recording: Any = None

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[Any]:
        """A block whose summaries go here; `step` is that of summaries that say none."""
        before = _state["step"]
        _state["step"] = before if step is None else step
        try:
            with self._inner.as_default(), tf.contrib.summary.always_record_summaries():
                yield self
        finally:
            _state["step"] = before

    def set_as_default(self, step: Any = None) -> None:
        """Lets the summaries of this thread go here from now on."""
        if step is not None:
            _state["step"] = step
        self._inner.set_as_default()
        self._recording = tf.contrib.summary.always_record_summaries()
        self._recording.__enter__()  # Kept: it would end with its last reference.

    def flush(self) -> Any:
        """Writes what is waiting."""
        return self._inner.flush()

    def close(self) -> Any:
        """Closes the file."""
        return self._inner.close()

    def init(self) -> Any:
        """Opens the file."""
        return self._inner.init()


@otherwise("summary.create_file_writer")
def create_file_writer(
    logdir: Any, max_queue: Any = None, flush_millis: Any = None, filename_suffix: Any = None, name: Any = None
) -> Any:
    """A writer of event files in a folder."""
    return _Writer(logdir, filename_suffix)


def _step(step: Any) -> Any:
    chosen = _state["step"] if step is None else step
    if chosen is None:
        raise ValueError("No step set. Please specify one either through the `step` argument or through "
                         "tf.summary.experimental.set_step()")  # fmt: skip
    return chosen() if callable(chosen) and not isinstance(chosen, tf.Variable) else chosen


def _write(function: Any, name: str, data: Any, step: Any, **options: Any) -> Any:
    if not _has_writer():
        return False
    written = function(name, data, step=_step(step), **options)
    return True if written is None else written


def _has_writer() -> bool:
    from thalweg.contrib.summary import writers  # Start-up time: loads contrib.

    return writers._current() is not None


@otherwise("summary.scalar")
def scalar(name: str, data: Any, step: Any = None, description: Any = None) -> Any:
    """Writes a number."""
    return _write(tf.contrib.summary.scalar, name, data, step)


@otherwise("summary.histogram")
def histogram(name: str, data: Any, step: Any = None, buckets: Any = None, description: Any = None) -> Any:
    """Writes the distribution of numbers."""
    return _write(tf.contrib.summary.histogram, name, data, step)


@otherwise("summary.image")
def image(name: str, data: Any, step: Any = None, max_outputs: int = 3, description: Any = None) -> Any:
    """Writes images."""
    return _write(tf.contrib.summary.image, name, data, step, max_images=max_outputs)


@otherwise("summary.audio")
def audio(
    name: str, data: Any, sample_rate: Any, step: Any = None, max_outputs: int = 3, encoding: Any = None,
    description: Any = None,
) -> Any:  # fmt: skip
    """Writes sounds."""
    return _write(tf.contrib.summary.audio, name, data, step, sample_rate=sample_rate, max_outputs=max_outputs)


@otherwise("summary.text")
def text(name: str, data: Any, step: Any = None, description: Any = None) -> Any:
    """Writes text."""

    def written(name: str, data: Any, step: Any) -> Any:
        from thalweg.contrib.summary import writers  # Start-up time: loads contrib.

        serialized = tf.summary.text(name, tf.convert_to_tensor(data), collections=[])
        return writers._write(name, serialized, step, None, lambda tag, value: tf.Summary.FromString(value))

    return _write(written, name, data, step)


@otherwise("summary.experimental.set_step")
def set_step(step: Any) -> None:
    """Sets the step of summaries that say none."""
    _state["step"] = step


@otherwise("summary.experimental.get_step")
def get_step() -> Any:
    """The step of summaries that say none."""
    return _state["step"]


@otherwise("summary.should_record_summaries")
def should_record_summaries() -> Any:
    """Whether summaries are written."""
    return _has_writer() and tf.contrib.summary.should_record_summaries()


@otherwise("summary.record_if")
@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """A block whose summaries are written if a condition holds."""
    holds = condition() if callable(condition) else condition
    with tf.contrib.summary.always_record_summaries() if bool(holds) else tf.contrib.summary.never_record_summaries():
        yield


@otherwise("summary.flush")
def flush(writer: Any = None, name: Any = None) -> Any:
    """Writes what is waiting."""
    return tf.contrib.summary.flush(None if writer is None else writer._inner)


OTHERWISE["summary.SummaryWriter"] = _Writer
