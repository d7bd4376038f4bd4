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
    "float": "Use tf.float32 or tf.float64.",
    "int": "Use tf.int32 or tf.int64.",
    "keras.applications": "The library contrib.slim has networks (slim.nets); see docs/compatibility.md.",
    "random.set_seed": "Use tf.random.set_random_seed.",
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
    # The same name in another namespace is no slip of the pen: conv2d is nn.conv2d, not cond.
    same = sorted((each for each in public if each.rpartition(".")[2] == last), key=lambda each: (len(each), each))
    if same:
        return f". Did you mean 'tf.{same[0]}'?"
    beside = [each for each in public if each.rpartition(".")[0] == space and not _are_opposites(each, name)]
    near = closest(last, [each.rpartition(".")[2] for each in beside])
    return f". Did you mean 'tf.{space}{'.' if space else ''}{near}'?" if near else ""


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that a misspelt one may stand for, or ''; upper and lower case count as the same letter.

    Example:
        >>> closest("sesion", ["Session", "Saver"])
        'Session'
    """
    import difflib  # Start-up time: only mistakes need it.

    by_lower = {each.lower(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.lower(), by_lower, 1, _CUTOFF)
    return by_lower[near[0]] if near else ""


def _are_opposites(one: str, other: str) -> bool:
    words = [name.rpartition(".")[2].partition("_")[0] for name in (one, other)]
    return set(words) == {"enable", "disable"}
