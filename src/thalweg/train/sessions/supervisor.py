"""Supervisor: the older training helper: a session, a coordinator, and threads that save checkpoints and summaries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.write_graph import write_graph
from thalweg.graph.graph import Graph
from thalweg.platform import logging
from thalweg.state.variable_lists import (
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from thalweg.summary.file_writer import FileWriter, meta_graph_of
from thalweg.summary.functions import merge_all
from thalweg.train.coordinator import Coordinator, LooperThread
from thalweg.train.global_step import get_global_step
from thalweg.train.global_step import global_step as read_global_step
from thalweg.train.sessions.scaffold import Scaffold, default_saver
from thalweg.train.sessions.session_manager import SessionManager
from thalweg.train.sessions.supervisor_services import SVStepCounterThread, SVSummaryThread, SVTimerCheckpointThread
from thalweg.train.sessions.wrapped_session import PREEMPTION_ERRORS


@export("train.Supervisor")
class Supervisor:
    """A training helper that checkpoints models and computes summaries.

    Programs written for TensorFlow 1 use it; `tf.train.MonitoredTrainingSession` does the same with hooks.
    """

    # Stands for "make the usual one"; None stands for "there shall be none".
    USE_DEFAULT = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: Any = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        """Creates a supervisor, adds the missing ops to the graph, and finalizes it.

        Args:
            graph: The graph; the default graph if None.
            ready_op: A tensor with the names of the variables that are not initialized.
            ready_for_local_init_op: The same for the variables that `local_init_op` needs.
            is_chief: Whether this process initializes and saves the model.
            init_op: Initializes the model.
            init_feed_dict: Feeds of `init_op`.
            local_init_op: Initializes the state of one session: local variables and tables.
            logdir: The folder for checkpoints and summaries; nothing is written without.
            summary_op: The op that the summary thread runs; None if the program writes its summaries itself.
            saver: A Saver; None to save nothing.
            global_step: An integer scalar that counts steps.
            save_summaries_secs: Seconds between summaries; 0 for none.
            save_model_secs: Seconds between checkpoints; 0 for none.
            recovery_wait_secs: The most seconds between checks whether the model is ready.
            stop_grace_secs: How long threads may go on after a stop.
            checkpoint_basename: How the names of checkpoints begin.
            session_manager: Makes the sessions.
            summary_writer: A FileWriter; None for none.
            init_fn: Called with the session after `init_op`.
            local_init_run_options: RunOptions of `local_init_op`.
        """
        default = Supervisor.USE_DEFAULT

        def choose(value: Any, make: Callable[[], Any]) -> Any:
            return make() if value is default or (isinstance(value, int) and value == default) else value

        self._graph = graph or get_default_graph()
        self._is_chief = is_chief
        self._coord = Coordinator()
        self._started_threads: list[Any] = []
        self._recovery_wait_secs = recovery_wait_secs
        self._stop_grace_secs = stop_grace_secs
        self._init_fn = init_fn
        self._logdir = os.fspath(logdir) if logdir is not None and is_chief else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        take = Scaffold.get_or_default
        if not is_chief:
            _check_placed(self._graph)
        with self._graph.as_default():
            self._init_op = choose(init_op, lambda: take("init_op", GraphKeys.INIT_OP, global_variables_initializer))
            self._init_feed_dict = init_feed_dict
            self._ready_op = choose(
                ready_op, lambda: take("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
            )
            self._ready_for_local_init_op = choose(
                ready_for_local_init_op,
                lambda: take(
                    "ready_for_local_init_op",
                    GraphKeys.READY_FOR_LOCAL_INIT_OP,
                    lambda: report_uninitialized_variables(global_variables()),
                ),
            )
            self._local_init_op = choose(
                local_init_op, lambda: take("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
            )
            if self._local_init_op is None:
                self._ready_for_local_init_op = None
            self._saver = choose(saver, self._default_saver)
            self._summary_op = choose(summary_op, lambda: take("summary_op", GraphKeys.SUMMARY_OP, merge_all))
            self._global_step = choose(global_step, get_global_step)
            self._session_manager = session_manager or SessionManager(
                local_init_op=self._local_init_op,
                ready_op=self._ready_op,
                ready_for_local_init_op=self._ready_for_local_init_op,
                graph=self._graph,
                recovery_wait_secs=recovery_wait_secs,
                local_init_run_options=local_init_run_options,
            )
        self._summary_writer = choose(summary_writer, lambda: FileWriter(self._logdir) if self._logdir else None)
        self._graph_added_to_summary = False
        self._graph.finalize()

    @staticmethod
    def _default_saver() -> Any:
        if not global_variables() and not get_default_graph().get_collection(GraphKeys.SAVERS):
            return None
        return Scaffold.get_or_default("saver", GraphKeys.SAVERS, default_saver)

    @property
    def is_chief(self) -> bool:
        """Whether this process initializes and saves the model."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """The SessionManager, which makes the sessions."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """The coordinator of all threads."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """Initializes the model."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """Feeds of `init_op`."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """The names of the variables that are not initialized."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """The names of the uninitialized variables that `local_init_op` needs."""
        return self._ready_for_local_init_op

    @property
    def summary_writer(self) -> Any:
        """The FileWriter, or None."""
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        """The op that the summary thread runs."""
        return self._summary_op

    @property
    def save_summaries_secs(self) -> float | None:
        """Seconds between summaries."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """The global step, or None."""
        return self._global_step

    @property
    def saver(self) -> Any:
        """The Saver, or None."""
        return self._saver

    @property
    def save_model_secs(self) -> float | None:
        """Seconds between checkpoints."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """How the paths of checkpoints begin."""
        return self._save_path

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """Returns a session whose model is ready, and starts the queue runners and, in the chief, the services.

        Args:
            master: The target of the session.
            config: Its ConfigProto.
            wait_for_checkpoint: Whether to wait for a first checkpoint.
            max_wait_secs: How long to wait.
            start_standard_services: Whether to start the threads that save checkpoints and summaries.
        """
        # After a stop, a new session starts the coordinator again.
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        if self._is_chief:
            sess = self._session_manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                logging.info("Starting standard services.")
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        if start_standard_services:
            logging.info("Starting queue runners.")
            self.start_queue_runners(sess)
        return sess

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer is not None and not self._graph_added_to_summary:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(meta_graph_of(self._graph, self._saver))
            self._graph_added_to_summary = True

    def start_standard_services(self, sess: Any) -> list[Any]:
        """Starts the threads that count steps per second, and save summaries and checkpoints.

        Raises:
            RuntimeError: If this is not the chief.
        """
        from tensorboard.compat.proto.event_pb2 import SessionLog  # Start-up time: protobuf is slow to import.

        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services. Because only chief supervisors can "
                               "write events.")  # fmt: skip
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return []
        threads: list[Any] = []
        if self._global_step is not None and self._summary_writer is not None:
            self._summary_writer.add_session_log(
                SessionLog(status=SessionLog.START), read_global_step(sess, self._global_step)
            )
        if self._save_summaries_secs and self._summary_writer is not None:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self._saver is not None and self._save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        self._started_threads.extend(threads)
        return threads

    def start_queue_runners(self, sess: Any, queue_runners: Any = None) -> list[Any]:
        """Starts queue runners; those of the graph's collection if None."""
        runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS) if queue_runners is None else queue_runners
        threads: list[Any] = []
        for runner in runners:
            threads.extend(runner.create_threads(sess, coord=self._coord, daemon=True, start=True))
        self._started_threads.extend(threads)
        return threads

    def loop(
        self, timer_interval_secs: float | None, target: Callable[..., Any], args: Any = None, kwargs: Any = None
    ) -> LooperThread:
        """Starts a thread that calls a function again and again."""
        looper = LooperThread(self._coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        self._started_threads.append(looper)
        return looper

    def stop(self, threads: Any = None, close_summary_writer: bool = True, ignore_live_threads: bool = False) -> None:
        """Stops all threads, and closes the event file.

        Raises:
            Exception: The first one of a thread.
        """
        from tensorboard.compat.proto.event_pb2 import SessionLog  # Start-up time: protobuf is slow to import.

        self._coord.request_stop()
        try:
            self._coord.join(
                threads, stop_grace_period_secs=self._stop_grace_secs, ignore_live_threads=ignore_live_threads
            )
        finally:
            if close_summary_writer and self._summary_writer is not None:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()
                self._graph_added_to_summary = False
            self._started_threads = []

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop."""
        self._coord.request_stop(ex=ex)

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> Any:
        """A context that requests a stop when an exception leaves it."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Waits until a stop is requested."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Any, summary: Any, global_step: Any = None) -> None:
        """Writes a summary that the program has computed.

        Raises:
            TypeError: If `summary` is neither a Summary nor bytes.
            RuntimeError: If there is no event file to write to.
        """
        if not isinstance(summary, (bytes, str)) and not hasattr(summary, "value"):
            raise TypeError(f"summary must be a Summary or a serialized one, got {type(summary).__name__}.")
        if self._summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = read_global_step(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """A context with a session; at its end, the threads are stopped and the session is closed.

        An exception of a thread, or of the body, is raised there; OutOfRangeError ends the training normally.
        """
        sess = None
        try:
            sess = self.prepare_or_wait_for_session(
                master=master, config=config, start_standard_services=start_standard_services
            )
            with sess.as_default(), self._graph.as_default():
                yield sess
        except Exception as e:
            self.request_stop(e)
        finally:
            try:
                # Threads that hang in a step end when the session closes, so they are ignored here.
                self.stop(close_summary_writer=close_summary_writer, ignore_live_threads=True)
            finally:
                if sess is not None:
                    with contextlib.suppress(*PREEMPTION_ERRORS):  # The session of a lost task.
                        sess.close()

    # The names before TensorFlow 1.0.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _check_placed(graph: Graph) -> None:
    """Raises ValueError if a variable has no device: each worker would have its own."""
    for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES):
        if not variable.device:
            raise ValueError(
                f"When using replicas, all Variables must have their device set: '{variable.name}' has none. Create "
                "the model under tf.device(tf.train.replica_device_setter(...))."
            )


@export("train.basic_train_loop")
def basic_train_loop(
    supervisor: Supervisor, train_step_fn: Callable[..., Any], args: Any = None, kwargs: Any = None, master: str = ""
) -> None:
    """Calls `train_step_fn(session, *args, **kwargs)` until the supervisor should stop.

    When a task is lost (AbortedError, UnavailableError), a new session is made and the loop goes on.

    Args:
        supervisor: A Supervisor.
        train_step_fn: A function that trains for one step.
        args: Further arguments.
        kwargs: Keyword arguments.
        master: The target of the session.
    """
    should_retry = True
    while should_retry:
        try:
            should_retry = False
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *(args or ()), **(kwargs or {}))
        except PREEMPTION_ERRORS as e:
            logging.info("A task was lost: starting a new session. %s", e)
            should_retry = True
