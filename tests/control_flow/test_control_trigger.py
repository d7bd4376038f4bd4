"""ControlTrigger, of which TensorFlow's graphs make use in gradients of conditionals in loops: it is never dead."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto.graph_pb2 import GraphDef

import thalweg as tf

GRAPH = """
node { name: "pred" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } device: "/cpu:0" }
node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
node { name: "switch" op: "Switch" input: "one" input: "pred" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "branch" op: "Neg" input: "switch:1" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "trigger" op: "ControlTrigger" input: "^branch" device: "/cpu:1" }
node { name: "after" op: "Neg" input: "one" input: "^trigger" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "dead" op: "Neg" input: "one" input: "^branch" attr { key: "T" value { type: DT_FLOAT } } }
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_a_trigger_runs_also_after_dead_inputs(devices: int) -> None:
    tf.import_graph_def(text_format.Parse(GRAPH, GraphDef()), name="")
    config = tf.ConfigProto(device_count={"CPU": devices}, allow_soft_placement=True)
    with tf.Session(config=config) as sess:
        for taken in (True, False):
            assert sess.run("after:0", {"pred:0": taken}) == -1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="dead"):
            sess.run("dead:0", {"pred:0": False})
