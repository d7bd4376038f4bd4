"""The session, the learning phase and the settings that Keras's functions share."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import outermost
from thalweg.keras.public_names import tf
from thalweg.keras.symbolic_graph import forget_symbolic_graph, runs_at_once

_settings: Final[dict[str, Any]] = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}
_phases: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()
_given_sessions: Final[list[Any]] = []
_own_sessions: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()
_initialized: Final[weakref.WeakKeyDictionary[Any, set[str]]] = weakref.WeakKeyDictionary()


@export("keras.backend.floatx")
def floatx() -> str:
    """The type of numbers that layers use where nothing else is said."""
    return str(_settings["floatx"])


@export("keras.backend.set_floatx")
def set_floatx(value: str) -> None:
    """Sets `floatx`: 'float16', 'float32' or 'float64'."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value}")
    _settings["floatx"] = str(value)


@export("keras.backend.epsilon")
def epsilon() -> float:
    """The small number that keeps divisions and logarithms finite."""
    return float(_settings["epsilon"])


@export("keras.backend.set_epsilon")
def set_epsilon(value: float) -> None:
    """Sets `epsilon`."""
    _settings["epsilon"] = float(value)


@export("keras.backend.image_data_format")
def image_data_format() -> str:
    """'channels_last' or 'channels_first', where a layer says nothing else."""
    return str(_settings["image_data_format"])


@export("keras.backend.set_image_data_format")
def set_image_data_format(data_format: str) -> None:
    """Sets `image_data_format`."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    _settings["image_data_format"] = data_format


@export("keras.backend.learning_phase")
def learning_phase() -> Any:
    """Whether this is training: a placeholder of the graph that is False unless fed, or what was set."""
    graph = _graph_of_phase()
    if graph not in _phases:
        if runs_at_once():
            return 0
        with tf.name_scope(None), tf.control_dependencies(None):
            _phases[graph] = tf.placeholder_with_default(False, shape=(), name="keras_learning_phase")
    return _phases[graph]


def _graph_of_phase() -> Any:
    """The default graph; that of the program where ops run at once, also in functions."""
    return outermost(tf.get_default_graph()) if runs_at_once() else tf.get_default_graph()


@export("keras.backend.set_learning_phase")
def set_learning_phase(value: Any) -> None:
    """Fixes the learning phase of the default graph: 0 for inference, 1 for training."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    _phases[_graph_of_phase()] = int(value)


@export("keras.backend.learning_phase_scope")
@contextlib.contextmanager
def learning_phase_scope(value: Any) -> Iterator[None]:
    """A scope in which the learning phase of the default graph has a value."""
    graph = _graph_of_phase()
    before = _phases.get(graph)
    set_learning_phase(value)
    try:
        yield
    finally:
        if before is None:
            _phases.pop(graph, None)
        else:
            _phases[graph] = before


@export("keras.backend.manual_variable_initialization")
def manual_variable_initialization(value: bool) -> None:
    """Says whether the program initializes variables itself, instead of `get_session`."""
    _settings["manual_initialization"] = bool(value)


@export("keras.backend.backend")
def backend() -> str:
    """The name of what computes."""
    return "tensorflow"


@export("keras.backend.set_session")
def set_session(session: Any) -> None:
    """Makes Keras use this session."""
    _given_sessions[:] = [session]


class _ValuesAtHand:
    """What stands in the place of a session where ops run at once: tensors and variables have their values."""

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        return tf.nest.map_structure(lambda each: each.numpy() if hasattr(each, "numpy") else each, fetches)


@export("keras.backend.get_session")
def get_session(op_input_list: Any = ()) -> Any:
    """The session that Keras uses: the default one, the one that was set, or one of its own for the default graph.

    Variables of layers that were never initialized are initialized in it. Where ops run at once, an object whose `run`
    gives the values of tensors and variables.
    """
    if tf.executing_eagerly():
        return _ValuesAtHand()
    session = tf.get_default_session()
    graph = tf.get_default_graph() if session is None else session.graph
    if session is None and _given_sessions and _given_sessions[0].graph is graph:
        session = _given_sessions[0]
    if session is None:
        session = _own_sessions.get(graph)
        if session is None:
            session = _own_sessions[graph] = tf.Session(graph=graph)
    if not _settings.get("manual_initialization"):
        _initialize(session)
    return session


def _initialize(session: Any) -> None:
    done = _initialized.setdefault(session, set())
    with session.graph.as_default():
        fresh = [each for each in tf.global_variables() if each.name not in done]
        if not fresh:
            return
        states = session.run([tf.is_variable_initialized(each) for each in fresh])
        session.run([each.initializer for each, state in zip(fresh, states, strict=True) if not state])
    done.update(each.name for each in fresh)


@export("keras.backend.clear_session")
def clear_session() -> None:
    """Forgets the graph and the session: the next layers start anew."""
    for session in [*_given_sessions, *_own_sessions.values()]:
        session.close()
    _given_sessions.clear()
    _own_sessions.clear()
    forget_symbolic_graph()
    if tf.get_default_session() is None and not tf.executing_eagerly():
        tf.reset_default_graph()
