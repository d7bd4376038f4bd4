"""SyncReplicasOptimizer: names and devices of its operations, the ways to use it, and its errors."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from tests.replicas.workers import Replica, run_workers


def sgd() -> Any:
    return tf.train.GradientDescentOptimizer(1.0)


def test_operations_have_the_names_and_devices_of_tensorflow() -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [3])
        table = tf.get_variable("table", [5, 3])
        loss = tf.reduce_sum(w * tf.nn.embedding_lookup(table, [1, 1, 2]))
        opt = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 2, 3)
        train_op = opt.minimize(loss, global_step=step)
        opt.get_init_tokens_op()
    graph = tf.get_default_graph()
    on_first, on_second, on_worker = "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:1"
    assert [step.device, w.device, table.device] == [on_first, on_second, on_first]
    for name, op_type, device in (
        ("sync_rep_local_step", "VarHandleOp", on_worker),
        ("sync_replicas/conditional_accumulator", "ResourceConditionalAccumulator", on_second),
        ("sync_replicas/sparse_conditional_accumulator", "SparseConditionalAccumulator", on_first),
        ("sync_replicas/SetGlobalStep", "ResourceAccumulatorSetGlobalStep", on_second),
        ("sync_replicas/SetGlobalStep_1", "AccumulatorSetGlobalStep", on_first),
        ("sync_token_q", "FIFOQueueV2", on_first),
        ("sync_token_q_Dequeue", "QueueDequeueV2", on_first),
        ("sync_token_q_EnqueueMany", "QueueEnqueueManyV2", on_first),
        ("dummy_queue", "FIFOQueueV2", on_first),
        ("Adam", "AssignAddVariableOp", on_first),
    ):
        op = graph.get_operation_by_name(name)
        assert (name, op.type, op.device) == (name, op_type, device)
    shared = {n: graph.get_operation_by_name(n).get_attr("shared_name") for n in ("sync_token_q", "dummy_queue")}
    assert shared == {"sync_token_q": b"sync_token_q", "dummy_queue": b"dummy_queue"}
    accumulator = graph.get_operation_by_name("sync_replicas/conditional_accumulator")
    assert accumulator.get_attr("shared_name") == b"w:0/grad_accum"
    assert [v.op.name for v in tf.local_variables()] == ["sync_rep_local_step"]
    assert train_op.op.device == on_worker
    assert opt.get_chief_queue_runner().name == "dummy_queue"
    assert opt.get_slot_names() == ["m", "v"]
    assert opt.get_slot(w, "m").device == on_second
    assert {v.op.name for v in opt.variables()} >= {"beta1_power", "w/Adam", "table/Adam_1"}


def test_variables_without_a_gradient_are_passed_on() -> None:
    step = tf.train.get_or_create_global_step()
    used, unused = tf.get_variable("used", [], initializer=tf.ones_initializer()), tf.get_variable("unused", [])
    opt = tf.train.SyncReplicasOptimizer(sgd(), 1)
    pairs = opt.compute_gradients(3.0 * used, [used, unused])
    assert pairs[1][0] is None
    train_op = opt.apply_gradients(pairs, global_step=step)
    with tf.train.MonitoredSession(hooks=[opt.make_session_run_hook(True, 0)]) as session:
        assert session.run(train_op) == 1
        assert session.run(used) == -2.0


def test_missing_and_wrong_arguments_are_refused_by_name() -> None:
    w = tf.get_variable("w", [])
    step = tf.train.get_or_create_global_step()
    opt = tf.train.SyncReplicasOptimizer(sgd(), 2)
    with pytest.raises(ValueError, match="at least one variable"):
        opt.apply_gradients([], global_step=step)
    with pytest.raises(ValueError, match="Global step is required"):
        opt.minimize(2.0 * w)
    with pytest.raises(ValueError, match="Unknown grad type"):
        opt.apply_gradients([("gradient", w)], global_step=step)
    opt = tf.train.SyncReplicasOptimizer(sgd(), 2)
    with pytest.raises(ValueError, match="after apply_gradients"):
        opt.get_chief_queue_runner()
    with pytest.raises(ValueError, match="after apply_gradients"):
        opt.get_init_tokens_op()
    with pytest.raises(ValueError, match="before using the hook"):
        opt.make_session_run_hook(True).begin()
    with pytest.raises(TypeError, match="Optimizer"):
        tf.train.SyncReplicasOptimizer(3, 2)
    for arguments in ({"replicas_to_aggregate": 0}, {"replicas_to_aggregate": 2, "total_num_replicas": 1.5}):
        with pytest.raises(ValueError, match="positive integer"):
            tf.train.SyncReplicasOptimizer(sgd(), **arguments)
    for index, total in ((2, 2), (-1, 2), (0, 1)):
        with pytest.raises(ValueError, match="worker_index"):
            tf.train.SyncReplicasOptimizer(sgd(), 2, total, worker_index=index)


def test_no_initial_tokens_are_an_operation_too() -> None:
    w = tf.get_variable("w", [])
    opt = tf.train.SyncReplicasOptimizer(sgd(), 2)
    opt.minimize(2.0 * w, global_step=tf.train.get_or_create_global_step())
    assert opt.get_init_tokens_op(0).name == "no_init_tokens"
    assert opt.get_init_tokens_op(3).type == "QueueEnqueueManyV2"


def test_the_hook_refuses_a_model_that_is_not_ready() -> None:
    w = tf.get_variable("w", [])
    opt = tf.train.SyncReplicasOptimizer(sgd(), 1)
    opt.minimize(2.0 * w, global_step=tf.train.get_or_create_global_step())
    hook = opt.make_session_run_hook(False)
    hook.begin()
    with tf.Session() as session, pytest.raises(RuntimeError, match=r"not make model ready.*w, global_step"):
        hook.after_create_session(session, tf.train.Coordinator())


def test_the_graph_of_a_worker_can_be_saved_and_restored(container: str, tmp_path: Path) -> None:
    """The default Saver saves the model, not what belongs to one replica; training goes on from the checkpoint."""

    def make(opt: Any) -> Any:
        return tf.train.SyncReplicasOptimizer(opt, 1, worker_index=0)

    for last in (3, 7):
        replica = Replica(f"{container}_{last}", 0, make)
        with replica.graph.as_default():
            hook = replica.optimizer.make_session_run_hook(True)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), hooks=[hook], save_summaries_steps=None, log_step_count_steps=None
            ) as session:
                step = 0 if last == 3 else 3
                while step < last:
                    step = session.run(replica.train_op, replica.feeds(step))
        tf.Session.reset("", [f"{container}_{last}"])
    names = {name for name, _ in tf.train.list_variables(str(tmp_path))}
    assert names == {"w", "table", "global_step"}
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-7")
    tf.summary.FileWriterCache.clear()


def test_supervisors_of_chief_and_worker(container: str, tmp_path: Path) -> None:
    replicas = [Replica(container, worker, lambda opt: tf.train.SyncReplicasOptimizer(opt, 2)) for worker in range(2)]
    finished = threading.Barrier(2)

    def work(replica: Replica) -> int:
        is_chief, opt = replica.worker == 0, replica.optimizer
        with replica.graph.as_default():
            init_tokens = opt.get_init_tokens_op() if is_chief else None
            sv = tf.train.Supervisor(
                is_chief=is_chief, logdir=str(tmp_path), global_step=replica.step, recovery_wait_secs=1,
                local_init_op=opt.chief_init_op if is_chief else opt.local_step_init_op,
                ready_for_local_init_op=opt.ready_for_local_init_op, init_op=tf.global_variables_initializer(),
                save_summaries_secs=0, summary_op=None,
            )  # fmt: skip
            with sv.managed_session() as session:
                if is_chief:
                    sv.start_queue_runners(session, [opt.get_chief_queue_runner()])
                    session.run(init_tokens)
                step = 0
                while step < 8:
                    step = session.run(replica.train_op, replica.feeds(step))
                finished.wait(60)
                return int(session.run(replica.step))

    assert run_workers(*(lambda r=r: work(r) for r in replicas)) == [8, 8]


def test_hooks_stop_all_workers_at_the_last_step(container: str) -> None:
    def make(worker: int) -> Any:
        return lambda opt: tf.train.SyncReplicasOptimizer(opt, 3, worker_index=worker)

    replicas = [Replica(container, worker, make(worker)) for worker in range(3)]

    def work(replica: Replica) -> int:
        is_chief = replica.worker == 0
        with replica.graph.as_default():
            hooks = [replica.optimizer.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=5)]
            runs = 0
            with tf.train.MonitoredTrainingSession(is_chief=is_chief, hooks=hooks, max_wait_secs=60) as session:
                while not session.should_stop():
                    session.run(replica.train_op, replica.feeds(runs))
                    runs += 1
            return runs

    assert run_workers(*(lambda r=r: work(r) for r in replicas)) == [5, 5, 5]
