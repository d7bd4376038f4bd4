"""Elastic training by hand, under the names that users of Horovod know: `run`, and the state that survives a loss.

A MonitoredTrainingSession with a `BroadcastGlobalVariablesHook` needs none of this.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.default_stack import AnySession, get_default_session
from thalweg.horovod.broadcasts import own_variables
from thalweg.horovod.operations import allgather
from thalweg.horovod.state_exchange import LOSSES, StateExchange
from thalweg.horovod.world import WORLD, reinit, world
from thalweg.ops.array.constants import placeholder
from thalweg.platform import logging

__all__ = ["State", "TensorFlowState", "run"]


class State:
    """The base class of states: what `run` needs of them."""

    def __init__(self) -> None:
        """Begins without callbacks."""
        self._reset_callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Adds functions that are called when rank and size may have changed."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Calls the functions."""
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keeps the present values: training goes on from here after a loss."""
        self.save()

    def save(self) -> None:
        """Keeps the present values."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the values of the last commit."""
        raise NotImplementedError

    def sync(self) -> None:
        """Takes over the values of the process that has made the most commits; all processes call this."""
        raise NotImplementedError


class TensorFlowState(State):
    """Variables of a session, and values as attributes: numbers, strings, lists and dictionaries of them.

    Example:
        >>> import thalweg.horovod as hvd
        >>> hvd.init()
        >>> x = tf.Variable(1.0)
        >>> step = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.25)).minimize(x * x)
        >>> @hvd.elastic.run
        ... def train(state):
        ...     while state.batch < 3:
        ...         state.session.run(step)
        ...         state.batch += 1
        ...         state.commit()
        >>> with tf.Session() as sess:
        ...     state = hvd.elastic.TensorFlowState(session=sess, batch=0)
        ...     sess.run(tf.global_variables_initializer())
        ...     train(state)
        ...     print(sess.run(x))
        0.125
        >>> hvd.shutdown()
    """

    def __init__(
        self, variables: Sequence[Any] | None = None, session: AnySession | None = None, **kwargs: Any
    ) -> None:
        """Adds operations to the graph.

        Args:
            variables: The variables; all global ones if None, but for those on PS tasks, which processes share.
            session: The session; the default one if None.
            **kwargs: The values, by the names of the attributes.

        Raises:
            ValueError: If there is no session.
        """
        super().__init__()
        found = session if session is not None else get_default_session()
        if found is None:
            raise ValueError("There is no session: pass one, or use the state within `with tf.Session()`.")
        self.session = found
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        with self.session.graph.as_default():
            self._variables = list(own_variables() if variables is None else variables)
            self._exchange = StateExchange(self._variables, "HorovodElasticState")
            self._text = placeholder(dtypes.uint8, [None], name="HorovodElasticState/text")
            self._length = placeholder(dtypes.int64, [1], name="HorovodElasticState/length")
            self._texts = allgather(self._text, name="HorovodElasticState/texts")
            self._lengths = allgather(self._length, name="HorovodElasticState/lengths")
        self._commits: int | None = None
        self._saved: tuple[list[Any], str] | None = None

    def save(self) -> None:
        """Keeps copies of the variables and of the values."""
        copies = [np.array(each) for each in self.session.run(self._variables)]
        self._commits = (self._commits or 0) + 1
        self._saved = (copies, self._values())

    def restore(self) -> None:
        """Goes back to the values of the last commit; without any, they stay as they are."""
        if self._saved is None:
            return
        copies, text = self._saved
        for var, value in zip(self._variables, copies, strict=True):
            var.load(value, self.session)
        self._set_values(text)

    def sync(self) -> None:
        """Takes over the values of the process that has made the most commits, of rank 0 if there is none."""
        root = self._exchange.run(self.session, 0, self._commits)
        text = np.frombuffer(self._values().encode(), np.uint8)
        given = {self._text: text, self._length: [len(text)]}
        texts, lengths = self.session.run([self._texts, self._lengths], given)
        begin = int(np.sum(lengths[:root]))
        self._set_values(bytes(texts[begin : begin + int(lengths[root])]).decode())
        self._saved = ([np.array(each) for each in self.session.run(self._variables)], self._values())

    def _values(self) -> str:
        values = {name: getattr(self, name) for name in self._names}
        return json.dumps({"commits": self._commits or 0, "values": values})

    def _set_values(self, text: str) -> None:
        found = json.loads(text)
        self._commits = found["commits"]
        for name, value in found["values"].items():
            setattr(self, name, value)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a training function go on with the processes that are left when one is lost, and with those that are back.

    The state is synchronized before the function is called, and when it is called again after a loss. Then it goes
    on from the last commit.

    Args:
        func: The function; its first argument is a State.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        found = world()
        found.open()
        found.groups.open_groups.begin(WORLD)
        while True:
            try:
                state.sync()
                result = func(state, *args, **kwargs)
                if not found.groups.open_groups.is_needed(WORLD):
                    return result
                state.save()  # A process that was left behind in the last step takes it over.
            except LOSSES as e:
                logging.warning("Training goes on without a process that was lost, or with one that is back: %s", e)
                state.restore()
            reinit()
            found.groups.open_groups.begin(WORLD)
            state.on_reset()

    return wrapper
