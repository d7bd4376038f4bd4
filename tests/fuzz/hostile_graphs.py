"""Mutates GraphDefs of small programs and runs what comes out: `python -m tests.fuzz.hostile_graphs SEED SECONDS`.

Attributes become negative, huge or of another kind, shapes lie, inputs come from other nodes (also handles of the wrong
kind), op types change. Whatever happens must be an error of the documented kinds, or a result; never a crash. Each
mutant is announced before it runs, so that the last line names the one that ended the process.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from typing import Any

import numpy as np

import thalweg as tf

_MOST_MEMORY = 6 << 30
_NUMBERS = (0, -1, 1, 2, 7, -(2**31), 2**31 - 1, 2**40, -(2**63), 2**63 - 1)
_SMALL_NUMBERS = (0, -1, 1, 2, 3, 7, 100, -100)
# Refusals of a graph or of a step. KeyError and the like would be a defect.
REFUSED = (tf.errors.OpError, ValueError, TypeError)


def programs() -> dict[str, Any]:
    """The GraphDefs that are mutated, by name."""
    return {build.__name__: _graph_def(build) for build in (_network, _loops, _queues, _strings, _arrays, _images)}


def _graph_def(build: Any) -> Any:
    with tf.Graph().as_default() as graph:
        build()
        return graph.as_graph_def()


def _network() -> None:
    x = tf.constant(np.ones((4, 8), np.float32))
    w = tf.get_variable("w", [8, 3], use_resource=True)
    with tf.control_dependencies([w.initializer]):
        loss = tf.reduce_mean(tf.square(tf.nn.softmax(tf.nn.relu(tf.matmul(x, w.read_value())))))
    tf.group(*[tf.identity(gradient) for gradient in tf.gradients(loss, [x])], name="end")


def _loops() -> None:
    array = tf.TensorArray(tf.float32, 3)

    def body(i: Any, array: Any, total: Any) -> Any:
        return i + 1, array.write(i, tf.fill([2], tf.cast(i, tf.float32))), total + tf.reduce_sum(array.size())

    _, array, total = tf.while_loop(lambda i, *_: i < 3, body, (0, array, 0))
    chosen = tf.cond(total > 2, lambda: array.stack(), lambda: tf.zeros([3, 2]))
    tf.reduce_sum(chosen, name="end")


def _queues() -> None:
    queue = tf.FIFOQueue(4, [tf.float32, tf.int32], shapes=[[2], []])
    with tf.control_dependencies([queue.enqueue([[1.0, 2.0], 3])]):
        values, number = queue.dequeue()
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    with tf.control_dependencies([table.insert(tf.constant(["a"]), tf.constant([1], tf.int64))]):
        found = table.lookup(tf.constant(["a", "b"]))
    tf.group(tf.identity(values), tf.identity(number), tf.identity(found), name="end")


def _strings() -> None:
    text = tf.constant(["a b", "c,d e", ""])
    parts = tf.string_split(text, " ")
    tf.group(
        tf.sparse_tensor_to_dense(parts, ""), tf.string_to_number(tf.constant(["1", "2"])), tf.substr(text, 0, 0),
        tf.string_to_hash_bucket_fast(text, 7), tf.as_string(tf.range(3)), tf.reduce_join(text, 0), name="end",
    )  # fmt: skip


def _arrays() -> None:
    x = tf.reshape(tf.range(24), [2, 3, 4])
    parts = [*tf.split(x, 2, 2), tf.nn.top_k(x, 2)[0], tf.unique(tf.reshape(x, [-1]))[0]]
    tf.group(
        tf.transpose(x, [2, 0, 1]), tf.gather(x, [1, 0], axis=1), x[:, 1:, ::2], tf.concat([x, x], 2),
        tf.tile(x, [1, 2, 1]), tf.pad(x, [[0, 0], [1, 1], [0, 2]]), tf.one_hot([1, 2], 4),
        tf.scatter_nd([[1]], [5], [3]), tf.reverse(x, [1]), tf.segment_sum(x, [0, 1]), tf.cumsum(x, 1), *parts,
        name="end",
    )  # fmt: skip


def _images() -> None:
    x = tf.constant(np.ones((1, 6, 6, 2), np.float32))
    w = tf.constant(np.ones((3, 3, 2, 4), np.float32))
    y = tf.nn.max_pool(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    resized = tf.image.resize_bilinear(y, [5, 5])
    cropped = tf.image.crop_and_resize(x, [[0.0, 0.0, 1.0, 1.0]], [0], [2, 2])
    tf.group(*tf.gradients(resized, [x, w]), cropped, tf.nn.lrn(x), name="end")


def mutated(graph_def: Any, rng: random.Random) -> Any:
    """A copy with one to three changes."""
    found = type(graph_def)()
    found.CopyFrom(graph_def)
    for _ in range(rng.randint(1, 3)):
        node = rng.choice(found.node)
        rng.choice((_attribute, _attribute, _attribute, _input, _op))(node, found, rng)
    return found


def _attribute(node: Any, graph_def: Any, rng: random.Random) -> None:
    if not node.attr:
        return
    value = node.attr[rng.choice(sorted(node.attr))]
    kind = value.WhichOneof("value")
    if kind == "i":
        value.i = rng.choice(_NUMBERS)
    elif kind == "f":
        value.f = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
    elif kind == "b":
        value.b = not value.b
    elif kind == "type":
        value.type = rng.choice((0, 1, 2, 3, 4, 7, 9, 10, 14, 20, 21, 101, 9999))
    elif kind == "s":
        value.s = rng.choice((b"", b"SAME", b"NCHW", b"\xff\x00", b"VALID", b"x" * 1000))
    elif kind == "shape":
        value.shape.dim.add(size=rng.choice(_NUMBERS))
    elif kind == "tensor":
        _tensor(value.tensor, rng)
    elif kind == "list" and value.list.i:
        value.list.i[rng.randrange(len(value.list.i))] = rng.choice(_NUMBERS)
    elif kind == "list" and value.list.type:
        value.list.type[rng.randrange(len(value.list.type))] = rng.choice((1, 3, 7, 20))
    else:
        value.i = rng.choice(_NUMBERS)


def _tensor(tensor: Any, rng: random.Random) -> None:
    choice = rng.randrange(4)
    if choice == 0:
        tensor.tensor_shape.dim.add(size=rng.choice(_NUMBERS))
    elif choice == 1 and tensor.tensor_shape.dim:
        tensor.tensor_shape.dim[0].size = rng.choice(_NUMBERS)
    elif choice == 2 and tensor.tensor_content:
        content = bytearray(tensor.tensor_content)
        content[rng.randrange(len(content))] = rng.randrange(256)
        tensor.tensor_content = bytes(content)
    elif tensor.int_val:
        tensor.int_val[rng.randrange(len(tensor.int_val))] = rng.choice(_SMALL_NUMBERS)
    else:
        tensor.int_val.append(rng.choice(_SMALL_NUMBERS))


def _input(node: Any, graph_def: Any, rng: random.Random) -> None:
    other = rng.choice(graph_def.node).name
    source = rng.choice((other, f"{other}:1", f"^{other}", f"{other}:{rng.choice((-1, 9, 2**31))}", "nowhere", ""))
    if node.input and rng.random() < 0.8:
        node.input[rng.randrange(len(node.input))] = source
    else:
        node.input.append(source)


def _op(node: Any, graph_def: Any, rng: random.Random) -> None:
    node.op = rng.choice(graph_def.node).op


def run(graph_def: Any) -> str:
    """Imports a graph and runs its end: what came of it."""
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(graph_def, name="")
            with tf.Session() as session:
                ends = [op for op in graph.get_operations() if op.name == "end"] or graph.get_operations()[-1:]
                session.run(ends, options=tf.RunOptions(timeout_in_ms=1000))
            return "ran"
        except REFUSED as e:
            return type(e).__name__
        except MemoryError:
            return "MemoryError"


def main(seed: int, seconds: float) -> None:
    """Runs mutants until the time is over; the counts of what came of them are the last line."""
    # A mutant may ask for much that is legal; the machine is not ours alone.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    known = programs()
    counts: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rng = random.Random(seed)
        name = rng.choice(sorted(known))
        print(f"mutant {seed} of {name}", flush=True)
        outcome = run(mutated(known[name], rng))
        counts[outcome] = counts.get(outcome, 0) + 1
        seed += 1
    print(f"done {sum(counts.values())} {counts}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
