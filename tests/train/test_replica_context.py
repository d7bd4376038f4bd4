"""tf.distribute.get_replica_context: the one replica of a program without a strategy."""

from __future__ import annotations

import thalweg as tf


def test_merging_over_one_replica_is_a_call() -> None:
    context = tf.distribute.get_replica_context()
    merged = context.merge_call(lambda strategy, x, factor: (strategy, x * factor), args=(3,), kwargs={"factor": 2})
    assert merged == (tf.distribute.get_strategy(), 6)
    assert (context.num_replicas_in_sync, context.replica_id_in_sync_group) == (1, 0)
    assert not tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
    with context.strategy.scope() as strategy:
        assert context.all_reduce("sum", strategy.num_replicas_in_sync) == 1
