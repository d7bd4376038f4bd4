"""What an AttributeError of the public namespace says: what to use instead of a name that is not there.

Names of TensorFlow that are absent on purpose have an answer of their own. For all others a similar public name is
suggested, if one is so close that the given name may be a slip of the pen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# A name this close counts as misspelt: one wrong letter in five, two in ten.
_CUTOFF: Final = 0.78

_INSTEAD: Final[dict[str, str]] = {
    "Module": "Use tf.variable_scope and tf.make_template for parts that share variables.",
    "init_scope": "Wrap what has to be outside of a function in `with tf.Graph().as_default()` or build it before.",
    "lite": "Use thalweg model freeze to write a graph without variables.",
    "tpu": "There is no TPU here; see docs/devices.md for the devices that there are.",
    "xla": "Fusion and constant folding are always on; there is nothing to switch on.",
    "autograph": "Use tf.cond, tf.case and tf.while_loop.",
    "random_uniform_like": "Use tf.random_uniform(tf.shape(x)).",
    "config": "Use tf.ConfigProto and tf.Session(config=...).",
    "optimizers": "Use tf.train: tf.train.AdamOptimizer, tf.train.MomentumOptimizer and so on.",
    "initializers.he_uniform": "Use tf.variance_scaling_initializer(scale=2.0, distribution='uniform').",
    "contrib.tpu": "There is no TPU here; see docs/devices.md for the devices that there are.",
    "contrib.slim": "Use tf.layers and tf.variable_scope.",
    "summary.create_file_writer": "Use tf.summary.FileWriter.",
    "random.Generator": "Use tf.random_normal, tf.random_uniform and their `seed`, or tf.random.stateless_normal.",
    "data.AUTOTUNE": "Use tf.data.experimental.AUTOTUNE.",
}  # fmt: skip


def advice(name: str, public: Iterable[str]) -> str:
    """The end of an error message about a name that is not there: what to use instead, or ''.

    Args:
        name: The name, dotted, without `tf.`.
        public: All public names, dotted.

    Example:
        >>> advice("matmull", ["matmul", "mod"])
        ". Did you mean 'tf.matmul'?"
    """
    space, _, last = name.rpartition(".")
    if last.startswith("_"):
        return ""
    if name in _INSTEAD:
        return f". {_INSTEAD[name]}"
    import difflib  # Start-up time: only mistakes need it.

    beside = [each for each in public if each.rpartition(".")[0] == space]
    near = difflib.get_close_matches(name, beside, 1, _CUTOFF)
    if near:
        return f". Did you mean 'tf.{near[0]}'?"
    same = sorted((each for each in public if each.rpartition(".")[2] == last), key=len)
    return f". Did you mean 'tf.{same[0]}'?" if same else ""
