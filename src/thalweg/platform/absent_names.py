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
    "lite": "Use thalweg model freeze to write a graph without variables.",
    "tpu": "There is no TPU here; see docs/devices.md for the devices that there are.",
    "xla": "Fusion and constant folding are always on; there is nothing to switch on.",
    "random_uniform_like": "Use tf.random_uniform(tf.shape(x)).",
    "config": "Use tf.ConfigProto and tf.Session(config=...).",
    "optimizers": "Use tf.train: tf.train.AdamOptimizer, tf.train.MomentumOptimizer and so on.",
    "summary.create_file_writer": "Use tf.summary.FileWriter.",
    "distribute.MirroredStrategy": "Use tf.train.replica_device_setter or thalweg.horovod, see docs/distributed.md.",
    "contrib.lite": "Use thalweg model freeze to write a graph without variables.",
    "random.Generator": "Use tf.random_normal, tf.random_uniform and their `seed`, or tf.random.stateless_normal.",
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

    # The same name in another namespace is no slip of the pen: conv2d is nn.conv2d, not cond.
    same = sorted((each for each in public if each.rpartition(".")[2] == last), key=lambda each: (len(each), each))
    if same:
        return f". Did you mean 'tf.{same[0]}'?"
    beside = [each for each in public if each.rpartition(".")[0] == space and not _are_opposites(each, name)]
    near = difflib.get_close_matches(name, beside, 1, _CUTOFF)
    return f". Did you mean 'tf.{near[0]}'?" if near else ""


def _are_opposites(one: str, other: str) -> bool:
    words = [name.rpartition(".")[2].partition("_")[0] for name in (one, other)]
    return set(words) == {"enable", "disable"}
