"""Scaffold: the ops around a model that a training session needs (init, ready, summaries, saver), with defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import add_to_collection, get_collection, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.ops.array.constants import group
from thalweg.platform import logging
from thalweg.state.lookup import tables_initializer
from thalweg.state.variable_lists import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from thalweg.summary.functions import merge_all
from thalweg.train.checkpoints.saver import Saver


@export("train.Scaffold")
class Scaffold:
    """The ops that a monitored session needs besides the model. Those not given come from a collection, or are created.

    Example:
        >>> scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: None)
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Scaffold, Any], Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """Creates a scaffold; all arguments are optional.

        Args:
            init_op: Initializes the model.
            init_feed_dict: Feeds of `init_op`.
            init_fn: Called with the scaffold and the session after `init_op`.
            ready_op: A tensor with the names of the variables that are not initialized.
            ready_for_local_init_op: The same for the variables that `local_init_op` needs.
            local_init_op: Initializes the state of one session: local variables and tables.
            summary_op: Merges all summaries.
            saver: A Saver.
            copy_from_scaffold: A Scaffold to take missing arguments from.
            local_init_feed_dict: Feeds of `local_init_op`.
        """
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError("copy_from_scaffold is not a Scaffold instance.")
        source = copy_from_scaffold

        def given(value: Any, name: str) -> Any:
            return getattr(source, name) if value is None and source is not None else value

        self._init_op = given(init_op, "init_op")
        self._init_feed_dict = given(init_feed_dict, "init_feed_dict")
        self._user_init_fn = given(init_fn, "_user_init_fn")
        self._ready_op = given(ready_op, "ready_op")
        self._ready_for_local_init_op = given(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = given(local_init_op, "local_init_op")
        self._local_init_feed_dict = given(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = given(summary_op, "summary_op")
        self._saver = given(saver, "saver")

    def finalize(self) -> Scaffold:
        """Creates the missing ops, and finalizes the graph: from here on it cannot grow by accident."""
        take = Scaffold.get_or_default
        if self._init_op is None:
            self._init_op = take("init_op", GraphKeys.INIT_OP, lambda: group(global_variables_initializer()))
        if self._ready_op is None:
            self._ready_op = take("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = take(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                lambda: report_uninitialized_variables(global_variables()),
            )
        if self._local_init_op is None:
            self._local_init_op = take("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        if self._summary_op is None:
            self._summary_op = take("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = take("saver", GraphKeys.SAVERS, default_saver)
        if self._saver is not None:
            self._saver.build()
        get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """A function of the session, or None."""
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

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
        """The names of the variables that are not initialized and that `local_init_op` needs."""
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        """Initializes the state of one session: local variables and tables."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        """Feeds of `local_init_op`."""
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        """Merges all summaries."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """The Saver."""
        return self._saver

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """Returns the one item of a collection, or makes it and puts it there.

        Raises:
            RuntimeError: If there are several.
        """
        elements = get_collection(collection_key)
        if len(elements) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which one to use by passing '
                f"it to the tf.Scaffold constructor as:  tf.Scaffold({arg_name}=item to use)"
            )
        if elements:
            return elements[0]
        op = default_constructor()
        if op is not None:
            add_to_collection(collection_key, op)
        return op

    @staticmethod
    def default_local_init_op() -> Any:
        """An op that initializes the local variables and the tables."""
        return group(local_variables_initializer(), tables_initializer())


def default_saver() -> Saver:
    """A saver of all variables."""
    return Saver(sharded=True, allow_empty=True)
