"""The threads of a Supervisor: steps per second, summaries, checkpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from thalweg.platform import logging
from thalweg.train.coordinator import LooperThread
from thalweg.train.global_step import global_step

if TYPE_CHECKING:
    from thalweg.train.sessions.supervisor import Supervisor


class SVSummaryThread(LooperThread):
    """Computes and writes the summaries."""

    def __init__(self, sv: Supervisor, sess: Any) -> None:
        """Takes the supervisor and its session."""
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess

    def run_loop(self) -> None:
        """One round."""
        step = self._sv.global_step
        if step is not None:
            summary, value = self._sess.run([self._sv.summary_op, step])
        else:
            summary, value = self._sess.run(self._sv.summary_op), None
        if self._sv.summary_writer is not None:
            logging.info("Recording summary at step %s.", value)
            self._sv.summary_writer.add_summary(summary, value)


class SVStepCounterThread(LooperThread):
    """Measures and writes the steps per second."""

    def __init__(self, sv: Supervisor, sess: Any) -> None:
        """Takes the supervisor and its session."""
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv = sv
        self._sess = sess
        self._last: tuple[float, int] | None = None

    def start_loop(self) -> None:
        """Sets the tag of the summary."""
        self._tag = f"{self._sv.global_step.op.name}/sec"

    def run_loop(self) -> None:
        """One round."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # Start-up time: protobuf is slow to import.

        now, step = time.time(), global_step(self._sess, self._sv.global_step)
        if self._last is not None and now > self._last[0]:
            speed = (step - self._last[1]) / (now - self._last[0])
            if self._sv.summary_writer is not None:
                value = Summary.Value(tag=self._tag, simple_value=speed)
                self._sv.summary_writer.add_summary(Summary(value=[value]), step)
            logging.info("%s: %g", self._tag, speed)
        self._last = now, step


class SVTimerCheckpointThread(LooperThread):
    """Saves checkpoints."""

    def __init__(self, sv: Supervisor, sess: Any) -> None:
        """Takes the supervisor and its session."""
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv = sv
        self._sess = sess

    def run_loop(self) -> None:
        """One round."""
        from tensorboard.compat.proto.event_pb2 import SessionLog  # Start-up time: protobuf is slow to import.

        path = self._sv.save_path
        logging.info("Saving checkpoint to path %s", path)
        self._sv.saver.save(self._sess, path, global_step=self._sv.global_step)
        if self._sv.summary_writer is not None and self._sv.global_step is not None:
            step = global_step(self._sess, self._sv.global_step)
            self._sv.summary_writer.add_session_log(
                SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=path), step
            )
