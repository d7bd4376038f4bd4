"""`Session.make_callable`: a step as a function of the values that it is fed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg import errors
from thalweg.runtime.fetches import FetchPlan, feed_tensors

if TYPE_CHECKING:
    from thalweg.runtime.session import BaseSession, _Step


def step_callable(
    session: BaseSession, fetches: Any, keys: list[Any], accept_options: bool, keeps_step: bool
) -> Callable[..., Any]:
    """A function that runs the step.

    Args:
        session: The session.
        fetches: What the function returns.
        keys: What it is fed with: one argument each, in order.
        accept_options: Whether it takes `options` and `run_metadata`.
        keeps_step: Whether the step is resolved once, at the first call, and again only when the graph has changed; a
            session with a `run` of its own has each call.
    """
    graph = session._graph
    known: _Step | None = None

    def call(*values: Any, **options: Any) -> Any:
        nonlocal known
        step = known
        if step is not None and step.mutations == graph._mutations and not options and not session._closed:
            if len(values) != len(keys):
                raise _wrong_count(len(keys), len(values))
            try:
                if step.single:
                    return step.compiled.run_one(values, session._timeout_ms)
                return step.build(step.compiled.run(values, session._timeout_ms))
            except (errors.OpError, OverflowError) as e:
                raise session._explained(e) from None
        if len(values) != len(keys):
            raise _wrong_count(len(keys), len(values))
        if options and not accept_options:
            raise TypeError("Pass accept_options=True to make_callable to use `options` or `run_metadata`.")
        feeds = dict(zip(keys, values, strict=True))
        result = session.run(fetches, feeds, **options)
        step, _ = session._prepared(fetches, feeds)
        # Other keys (names, sparse tensors) stand for tensors that `run` finds.
        if keeps_step and list(step.feeds) == keys:
            known = step
        return result

    FetchPlan(graph, fetches)
    for key in keys:
        feed_tensors(graph, key)
    return call


def _wrong_count(expected: int, given: int) -> TypeError:
    return TypeError(f"The callable takes {expected} values, one per tensor of feed_list; got {given}.")
