"""The nodes of the tests' op cases as benchmark cases: small sizes, but nearly every op of the registry.

`export_records` runs where Thalweg is: for each record it builds the call, takes the node of the record's op out of the
graph, and keeps it as a GraphDef with placeholders, together with the values of its inputs. Any framework that reads
GraphDefs can then run the node (`all_cases`).
"""

import importlib
import pickle
import pkgutil
import sys
from pathlib import Path

import numpy as np

from case import Case, session
from op_sweep import OpStep, aligned

RECORDS = Path(__file__).resolve().parent.parent / "results" / "op_records.pickle"
# The values of these are of the moment, of chance, or of the machine.
NOT_COMPARED = ("Random", "Sampler", "Multinomial", "Truncated", "Timestamp", "Svd", "Qr", "SelfAdjoint", "Shuffle")


def export_records() -> None:
    """Writes the nodes of all op cases, two element types of each."""
    root = RECORDS.parent.parent.parent
    sys.path.insert(0, str(root))
    import tests.op_cases as op_cases  # here alone: only Thalweg's environment has them
    from tests.ops.test_op_cases import build, draw

    import thalweg as tf

    for module in pkgutil.iter_modules(op_cases.__path__):
        importlib.import_module(f"tests.op_cases.{module.name}")
    records = {}
    for case in op_cases.CASES:
        for dtype in case.dtypes[:2]:
            sample = case.samples[0]
            with tf.Graph().as_default() as graph, tf.Session() as sess:
                try:
                    _, feeds = build(case, draw(sample, dtype, case.name), sample.kwargs, True)
                    node = next(op for op in graph.get_operations() if op.type == case.op)
                    values = sess.run(list(node.inputs), feeds) if node.inputs else []
                except Exception as error:
                    print(f"{case.name} of {dtype.name} is left out: {str(error).splitlines()[0][:100]}")
                    continue
                definition = graph.as_graph_def()
            records[f"{case.op}/{dtype.name}/{case.name}"] = _alone(tf, definition, node, values)
    RECORDS.write_bytes(pickle.dumps(records))


def _alone(tf, definition, node, values):
    """A graph of the node and a placeholder for each of its inputs."""
    alone = tf.GraphDef()
    alone.versions.CopyFrom(definition.versions)
    names = [f"input_{i}" for i in range(len(values))]
    for name, tensor in zip(names, node.inputs, strict=True):
        placeholder = alone.node.add(name=name, op="Placeholder")
        placeholder.attr["dtype"].type = tensor.dtype.base_dtype.as_datatype_enum
    kept = alone.node.add()
    kept.CopyFrom(next(n for n in definition.node if n.name == node.name))
    kept.name = "measured"
    del kept.input[:]
    kept.input.extend(names)
    arrays = [np.array(v, object) if isinstance(v, bytes) else np.asarray(v) for v in values]
    return alone.SerializeToString(), names, arrays, len(node.outputs)


def _builder(name, record):
    def build(tf, setting):
        text, names, values, outputs = record
        graph = tf.Graph()
        with graph.as_default():
            definition = tf.GraphDef()
            definition.ParseFromString(text)
            tf.import_graph_def(definition, name="")
        keys = [graph.get_tensor_by_name(f"{key}:0") for key in names]
        fed = [aligned(value) for value in values]
        sess = session(tf, setting, graph)
        operation = graph.get_operation_by_name("measured")
        run = sess.make_callable(operation, keys)
        fetched = list(operation.outputs)
        compared = outputs and not any(word in name for word in NOT_COMPARED)
        results = (lambda: sess.run(fetched, dict(zip(keys, fed, strict=True)))) if compared else None
        return OpStep(lambda: run(*fed), results)

    return build


def all_cases() -> dict[str, Case]:
    """A case for each node that was exported."""
    records = pickle.loads(RECORDS.read_bytes()) if RECORDS.exists() else {}
    return {name: Case("records", graph=_builder(name, record)) for name, record in records.items()}
