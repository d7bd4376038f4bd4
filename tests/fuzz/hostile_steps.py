"""Mutates planned steps and runs what comes out: `python -m tests.fuzz.hostile_steps SEED SECONDS`.

A peer that has proved the cluster's key sends steps as bytes, behind all checks that building a graph makes. Types are
changed on both ends of an edge, shapes and sizes lie, edges lead elsewhere, transfers disagree, functions get other
bodies, attributes become private ones of the passes. Whatever happens must be an error or a result; never a crash. Each
mutant is announced before it runs, so that the last line names the one that ended the process.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf
from tests.fuzz import hostile_graphs
from thalweg._native import core
from thalweg.graph.definitions.op_registry import all_ops
from thalweg.passes.options import PassOptions
from thalweg.placement.placer import Placer
from thalweg.planning import planned_step_bytes
from thalweg.planning.plan_step import Planner
from thalweg.runtime.install import evaluate, install, local_kernels, register_python_kernels, supports

_MOST_MEMORY = 6 << 30
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2)]
_TYPES = (1, 2, 3, 4, 6, 7, 8, 9, 10, 14, 18, 19, 20, 21)
_NUMBERS = (0, -1, 1, 2, 7, 64, -(2**31), 2**31 - 1, 2**40, -(2**63), 2**63 - 1)
# Attributes by which passes tell each other, and the core, about a node.
_PRIVATE = (
    "_any_sums", "_class", "_colocation", "_compress", "_host_memory", "_keep_weights", "_maybe_dead", "_member_ops",
    "_members", "_noinline",
)  # fmt: skip

Build = Callable[[], Any]


def empty_step() -> Any:
    """The message of a planned step, to be filled."""
    return planned_step_bytes._messages()["PlannedStepDef"]()


def planned(build: Build, count: int = 2) -> Any:
    """The planned step of a program, over so many devices, as a message."""
    with tf.Graph().as_default() as graph:
        fetches = build()
        graph_ops = graph.get_operations()
        if fetches is None:
            fetches = [op for op in graph_ops if op.name == "end"] or graph_ops[-1:]
        elif isinstance(fetches, (list, tuple)):
            fetches = list(fetches)
        else:
            fetches = [fetches]
        targets = [each for each in fetches if isinstance(each, tf.Operation)]
        feeds = [op.outputs[0] for op in graph_ops if op.type == "Placeholder"]
        placer = Placer.from_config(tf.ConfigProto(device_count={"CPU": count}, allow_soft_placement=True))
        planner = Planner(placer, PassOptions(), evaluate, local_kernels, supports)
        tensors = [each for each in fetches if not isinstance(each, tf.Operation)]
        return planned_step_bytes._to_proto(planner.plan(graph, feeds, tensors, targets))


def programs(count: int = 2) -> dict[str, Any]:
    """The planned steps that are mutated, by name, for so many devices."""
    builds: list[Build] = [_transfers, _functions, _loop_over_devices, _shapes, _random_state]
    builds += [
        getattr(hostile_graphs, name) for name in ("_network", "_loops", "_queues", "_strings", "_arrays", "_images")
    ]
    return {build.__name__: planned(build, count) for build in builds}


def _transfers() -> Any:
    x = tf.placeholder(tf.float32, [4, 8])
    with tf.device("/cpu:0"):
        a, n = tf.tanh(x), tf.shape(x, out_type=tf.int64)
    with tf.device("/cpu:1"):
        b = tf.reduce_sum(a, 1) * 2.0 + tf.cast(n[0], tf.float32)
        text = tf.string_join([tf.as_string(b), "!"])
    with tf.device("/cpu:0"):
        return [tf.string_to_number(tf.substr(text, 0, 3)), tf.cast(b, tf.complex64), tf.argmax(b)]


def _functions() -> Any:
    @tf.experimental.Defun(tf.float32, func_name="Inner", noinline=True)
    def inner(x: Any) -> Any:
        return tf.tanh(x), tf.shape(x)

    @tf.experimental.Defun(tf.float32, func_name="Outer", noinline=True)
    def outer(x: Any) -> Any:
        values, shape = inner(x)
        return values + 1.0, tf.reduce_prod(shape)

    x = tf.placeholder(tf.float32, [4])
    return [*outer(x), tf.map_fn(lambda v: v * 2.0, x), inner(x)[1]]


def _loop_over_devices() -> Any:
    x = tf.placeholder(tf.float32, [4])

    def body(i: Any, total: Any) -> Any:
        with tf.device("/cpu:1"):
            other = tf.sin(total)
        return i + 1, other + tf.cast(i, tf.float32)

    chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: tf.zeros([2]))
    return [tf.while_loop(lambda i, _: i < 3, body, (0, x))[1], chosen]


def _shapes() -> Any:
    x = tf.placeholder(tf.float32, [4, 8])
    y = tf.nn.relu(tf.matmul(x, tf.ones([8, 16])) + tf.ones([16]))
    z = tf.exp(y) * tf.sigmoid(y) - tf.reduce_mean(y, 0)
    return [tf.nn.softmax(z), tf.reduce_max(z), tf.concat([z, y], 1)[:, 3:9], tf.ensure_shape(z, [4, 16])]


def _random_state() -> Any:
    v = tf.get_variable("v", [4], use_resource=True)
    w = tf.get_variable("w", [4], dtype=tf.int64, use_resource=True, initializer=tf.zeros_initializer())
    with tf.control_dependencies([v.initializer, w.initializer]):
        added = v.assign_add(tf.random_uniform([4]))
        whole = w.assign_add(tf.random_uniform([4], maxval=9, dtype=tf.int64))
    array = tf.TensorArray(tf.float32, 2).write(0, added).write(1, added)
    return [array.stack(), whole + 0, tf.random_shuffle(tf.range(9))]


def mutated(step: Any, rng: random.Random) -> Any:
    """A copy with one to three changes."""
    found = type(step)()
    found.CopyFrom(step)
    for _ in range(rng.randint(1, 3)):
        graphs = [each.step_graph for each in (*found.part, *found.function)]
        graph = rng.choice([each for each in graphs if each.graph.node] or graphs)
        _change(found, graph, rng)
    return found


def _change(step: Any, graph: Any, rng: random.Random) -> None:
    node = rng.choice(graph.graph.node)
    changes: tuple[Callable[[], None], ...] = (
        lambda: _retype(step, rng),
        lambda: _retype(step, rng),
        lambda: _attribute(node, rng),
        lambda: _attribute(node, rng),
        lambda: _rewire(node, graph, rng),
        lambda: _rewire(node, graph, rng),
        lambda: _same_signature(node, rng),
        lambda: _swap_names(graph, rng),
        lambda: _outside(step, graph, rng),
        lambda: _shape(graph, rng),
    )
    rng.choice(changes)()


def _retype(step: Any, rng: random.Random) -> None:
    """Gives all tensors and attributes of one type another one, in one node, one graph, or everywhere."""
    old, new = rng.choice(_TYPES), rng.choice(_TYPES)
    graphs = [each.step_graph for each in (*step.part, *step.function)]
    some = rng.choice(([rng.choice(graphs)], graphs))
    for graph in some:
        nodes = list(graph.graph.node)
        for node in rng.choice((nodes, nodes, [rng.choice(nodes)] if nodes else [])):
            for value in node.attr.values():
                if value.type == old:
                    value.type = new
                if value.list.type:
                    value.list.type[:] = [new if each == old else each for each in value.list.type]
        for feed in graph.feed:
            if feed.dtype == old:
                feed.dtype = new
    for feed in step.feed:
        if feed.dtype == old and rng.random() < 0.8:
            feed.dtype = new
    for function in step.function:
        if rng.random() < 0.8:
            function.output_dtype[:] = [new if each == old else each for each in function.output_dtype]


def _attribute(node: Any, rng: random.Random) -> None:
    if rng.random() < 0.1:
        node.attr[rng.choice(_PRIVATE)].b = True
        return
    if not node.attr:
        return
    name = rng.choice(sorted(node.attr))
    if rng.random() < 0.1:
        del node.attr[name]
        return
    value = node.attr[name]
    lists = value.list
    for items, pool in ((lists.i, _NUMBERS), (lists.type, _TYPES)):
        if items:
            _list(items, pool, rng)
            return
    if lists.shape:
        lists.shape[rng.randrange(len(lists.shape))].dim.add(size=rng.choice(_NUMBERS))
        return
    if lists.s:
        lists.s[rng.randrange(len(lists.s))] = rng.choice((b"", b"\xff", b"SAME"))
        return
    hostile_graphs._attribute(node, None, rng)


def _list(items: Any, pool: tuple[int, ...], rng: random.Random) -> None:
    choice = rng.randrange(3)
    if choice == 0:
        items[rng.randrange(len(items))] = rng.choice(pool)
    elif choice == 1:
        items.append(rng.choice(pool))
    else:
        del items[rng.randrange(len(items))]


def _rewire(node: Any, graph: Any, rng: random.Random) -> None:
    """Another edge of the same type as the one before, or another control edge, so that the types still agree."""
    by_name = {each.name: each for each in graph.graph.node}
    data = [i for i, text in enumerate(node.input) if not text.startswith("^")]
    if not data or rng.random() < 0.2:
        node.input.append("^" + rng.choice(sorted(by_name)))
        return
    at = rng.choice(data)
    types = node.attr["_input_types"].list.type
    wanted = types[at] if at < len(types) else 0
    edges = [
        each.name if i == 0 else f"{each.name}:{i}"
        for each in by_name.values()
        for i, dtype in enumerate(each.attr["_output_types"].list.type)
        if dtype == wanted
    ]
    if edges:
        node.input[at] = rng.choice(edges)


def _same_signature(node: Any, rng: random.Random) -> None:
    """Another op, one that has the same attributes if there is one."""
    ops = {op.name: op for op in all_ops() if core.has_kernel(op.name)}
    own = ops.get(node.op)
    if own is None or rng.random() < 0.1:
        node.op = rng.choice(sorted(ops))
        return
    names = set(own.attrs)
    similar = [
        name
        for name, op in ops.items()
        if len(op.inputs) == len(own.inputs)
        and len(op.outputs) == len(own.outputs)
        and set(op.attrs) <= names
        and name not in ("WriteFile", "DeleteFile", "Abort", "SaveV2", "Save", "PyFunc", "PyFuncStateless")
    ]
    if similar:
        node.op = rng.choice(similar)


def _swap_names(graph: Any, rng: random.Random) -> None:
    """A second node stands for another one: stateful kernels are kept by name."""
    first, second = rng.choice(graph.graph.node), rng.choice(graph.graph.node)
    old, new = first.name, second.name
    for node in graph.graph.node:
        node.name = {old: new, new: old}.get(node.name, node.name)


def _outside(step: Any, graph: Any, rng: random.Random) -> None:
    """What belongs to the step and not to a node."""
    part = rng.choice(step.part)
    names = [node.name for node in graph.graph.node]
    choice = rng.randrange(8)
    if choice == 0:
        part.delay.add(node=rng.choice(names), waits_for=rng.choice(names))
    elif choice == 1:
        part.priority[rng.choice(names)] = rng.choice((0.0, -1.0, 1e308))
    elif choice == 2 and graph.fetch:
        graph.fetch[rng.randrange(len(graph.fetch))] = rng.choice(names)
    elif choice == 3:
        step.num_fetches = rng.choice((0, 1, 50, 2**31 - 1))
    elif choice == 4 and part.fetch_position:
        part.fetch_position[rng.randrange(len(part.fetch_position))] = 0
    elif choice == 5:
        step.changes_resources = not step.changes_resources
    elif choice == 6 and step.function:
        step.function[0].name = rng.choice([each.name for each in step.function])
    else:
        graph.target.append(rng.choice(names))


def _shape(graph: Any, rng: random.Random) -> None:
    """Static shapes that lie."""
    found = [feed.shape for feed in graph.feed]
    for node in graph.graph.node:
        found += [value.shape for value in node.attr.values() if value.HasField("shape")]
        found += node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else []
    for shape in rng.sample(found, min(len(found), rng.choice((1, 3, len(found))))):
        if shape.dim and rng.random() < 0.7:
            shape.dim[rng.randrange(len(shape.dim))].size = rng.choice((0, 1, 2, 3, 16, 1000, -1, 2**40))
        else:
            shape.dim.add(size=rng.choice((0, 1, 7)))


def run(data: bytes, session: Any) -> str:
    """Reads, installs and runs a step twice: what came of it."""
    try:
        step = planned_step_bytes.from_bytes(data)
    except (ValueError, MemoryError):
        return "refused"
    try:
        compiled = install(session, step).compiled
        for _ in range(2):
            feeds = [_value(feed) for feed in step.feeds]
            compiled.run(feeds, 500)
        return "ran"
    except (tf.errors.OpError, MemoryError) as e:
        return type(e).__name__


def _value(feed: Any) -> Any:
    dims = [2 if size is None else min(size, 9) for size in feed.shape.dims_tuple or ()]
    if feed.dtype == tf.string:
        return np.full(dims, b"text", object)
    return np.ones(dims, feed.dtype.as_numpy_dtype)


def main(seed: int, seconds: float) -> None:
    """Runs mutants until the time is over; the counts of what came of them are the last line."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    register_python_kernels()
    known = programs()
    counts: dict[str, int] = {}
    end = time.monotonic() + seconds
    session = core.Session(DEVICES)
    while time.monotonic() < end:
        rng = random.Random(seed)
        if seed % 20 == 0:
            session = core.Session(DEVICES)
        name = rng.choice(sorted(known))
        print(f"mutant {seed} of {name}", flush=True)
        outcome = run(mutated(known[name], rng).SerializeToString(), session)
        counts[outcome] = counts.get(outcome, 0) + 1
        seed += 1
    print(f"done {sum(counts.values())} {counts}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
