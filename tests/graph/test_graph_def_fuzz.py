"""Damaged GraphDefs: after any change, importing and running give a result or a clear error."""

import random
import time
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tests.data import golden_graphs as golden

import thalweg as tf

ALLOWED = (ValueError, TypeError, tf.errors.OpError, DecodeError)
SECONDS = 1.0  # For each kind of damage.


def try_to_use(graph_def: Any, steps: list[golden.Step]) -> str:
    """Imports a GraphDef and runs the golden graph's steps on the imported graph."""
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
        except ALLOWED as e:
            assert str(e)
            assert graph.get_operations() == []
            return "refused"
        if not graph.as_graph_def().node:
            return "empty"
        if asks_for_much(graph):
            return "too large"
        config = tf.ConfigProto(operation_timeout_in_ms=300)
        with tf.Session(config=config) as session:
            for step in steps:
                try:
                    golden.run(session, step)
                except ALLOWED as e:
                    assert str(e)
                    return "failed"
        return "ran"


def asks_for_much(graph: tf.Graph) -> bool:
    """Whether a changed number asks for gigabytes: legal, but nothing to do in a test."""
    for op in graph.get_operations():
        value = op.attrs.get("value") if op.type == "Const" else None
        if value is not None and value.dtype.kind in "iu" and value.size and np.abs(value.astype(float)).max() > 1e5:
            return True
        if any((tensor.shape.num_elements() or 0) > 1e6 for tensor in op.outputs):
            return True
    return False


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def splice(data: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(data)) for _ in range(2))
    return data[:start] + data[end:] if rng.random() < 0.5 else data[:end] + data[start:]


@pytest.mark.parametrize("damage", [flip_bits, truncate, splice])
def test_damaged_bytes_give_clear_errors(damage: Any) -> None:
    rng = random.Random(damage.__name__)
    graphs = [(golden.load(name).SerializeToString(), golden.steps(name)) for name in golden.NAMES]
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        data, steps = rng.choice(graphs)
        try:
            graph_def = tf.GraphDef.FromString(damage(data, rng))
        except DecodeError:
            continue
        try_to_use(graph_def, steps)


def delete_node(graph_def: Any, rng: random.Random) -> None:
    del graph_def.node[rng.randrange(len(graph_def.node))]


def rewire(graph_def: Any, rng: random.Random) -> None:
    node = rng.choice([node for node in graph_def.node if node.input])
    other = rng.choice(graph_def.node).name
    node.input[rng.randrange(len(node.input))] = rng.choice([other, f"{other}:1", f"^{other}", "", "^", ":", "x:y:0"])


def rewire_alike(graph_def: Any, rng: random.Random) -> None:
    """Replaces an input by an earlier tensor of the same type: most such graphs can be imported, and then run."""
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
        except ALLOWED:
            return
    op = rng.choice([op for op in graph.get_operations() if op.inputs])
    index = rng.randrange(len(op.inputs))
    wanted = op.inputs[index].dtype
    earlier = [t.name for o in graph.get_operations()[: op._id] for t in o.outputs if t.dtype is wanted]
    node = next(node for node in graph_def.node if node.name == op.name)
    node.input[index] = rng.choice(earlier or [op.name])


def change_op(graph_def: Any, rng: random.Random) -> None:
    rng.choice(graph_def.node).op = rng.choice(graph_def.node).op


def change_attr(graph_def: Any, rng: random.Random) -> None:
    nodes = [node for node in graph_def.node if node.attr]
    node, other = rng.choice(nodes), rng.choice(nodes)
    key = rng.choice(sorted(node.attr))
    kind = rng.randrange(5)
    if kind == 0:
        del node.attr[key]
    elif kind == 1:
        node.attr[key].CopyFrom(other.attr[rng.choice(sorted(other.attr))])
    elif kind == 2:
        node.attr[key].type = rng.randrange(130)
    elif kind == 3:
        node.attr[key].i = rng.choice([-(2**63), -1, 0, 1, 2, 2**31, 2**62])
    else:
        dims = node.attr[key].tensor.tensor_shape.dim if node.attr[key].HasField("tensor") else []
        for dim in dims:
            dim.size = rng.choice([-(2**63), -1, 0, 1, 3, 2**31, 2**62])


def shuffle(graph_def: Any, rng: random.Random) -> None:
    nodes = list(graph_def.node)
    rng.shuffle(nodes)
    copies = [tf.NodeDef.FromString(node.SerializeToString()) for node in nodes]
    del graph_def.node[:]
    graph_def.node.extend(copies)


DAMAGES = [delete_node, rewire, rewire_alike, change_op, change_attr]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_graphs_give_clear_errors(damage: Any) -> None:
    rng = random.Random(damage.__name__)
    graphs = [(golden.load(name).SerializeToString(), golden.steps(name)) for name in golden.NAMES]
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        data, steps = rng.choice(graphs)
        graph_def = tf.GraphDef.FromString(data)
        for _ in range(rng.randint(1, 3)):
            damage(graph_def, rng)
        try_to_use(graph_def, steps)


@pytest.mark.parametrize("name", golden.NAMES)
def test_the_order_of_the_nodes_does_not_matter(name: str) -> None:
    graph_def = golden.load(name)
    shuffle(graph_def, random.Random(name))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        for step in golden.steps(name):
            values = golden.run(session, step)
            for tensor, expected in step.fetches.items():
                golden.assert_same(values[tensor], expected, tensor)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_graph(seed: int) -> None:
    data = np.random.RandomState(seed).bytes(200)
    try:
        graph_def = tf.GraphDef.FromString(data)
    except DecodeError:
        return
    try_to_use(graph_def, [])


@pytest.mark.parametrize("source", ["while/Switch", "while/Merge", "while/LoopCond", "while/NextIteration"])
@pytest.mark.parametrize("control", [False, True])
def test_reading_from_within_a_loop_is_no_crash(source: str, control: bool) -> None:
    graph_def = golden.load("while_loop")
    node = next(node for node in graph_def.node if node.name == "count")
    if control:
        node.input.append(f"^{source}")
    elif source != "while/LoopCond":
        node.input[0] = source
    assert try_to_use(graph_def, golden.steps("while_loop")) in ("ran", "failed")
