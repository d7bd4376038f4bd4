"""tf.distribute.TensorFlowClients: how many sessions TensorFlow's clients may have on a task, and for how long."""

from __future__ import annotations

from typing import NamedTuple

from thalweg.graph.definitions.op_registry import export


@export("distribute.TensorFlowClients")
class TensorFlowClients(NamedTuple):
    """Limits for the sessions of TensorFlow's clients on a task: `tf.train.Server(…, tensorflow_clients=…)`.

    TensorFlow's protocol does not tell a master that a client is gone: sessions that were not closed would stay.

    Attributes:
        most_sessions: How many there may be at a time; a client that wants one more gets ResourceExhaustedError.
        idle_seconds: A session that has not been used for so long is closed; its client gets AbortedError. 0: never.

    Example:
        >>> limits = tf.distribute.TensorFlowClients(most_sessions=100, idle_seconds=3600.0)
        >>> server = tf.train.Server.create_local_server(tensorflow_clients=limits)
        >>> server.stop()
    """

    most_sessions: int = 1000
    idle_seconds: float = 86400.0
