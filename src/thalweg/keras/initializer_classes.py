"""tf.keras.initializers: those of `tf.initializers` under Keras's names and with its defaults."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.named_objects import Registry, export_registry
from thalweg.keras.public_names import tf

registry: Final = Registry("initializer")


class RandomNormal(tf.initializers.random_normal):
    """Numbers of a normal distribution, of deviation 0.05."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None, dtype: Any = tf.float32) -> None:
        """Takes the mean and the deviation."""
        super().__init__(mean=mean, stddev=stddev, seed=seed, dtype=dtype)


class RandomUniform(tf.initializers.random_uniform):
    """Numbers between -0.05 and 0.05."""

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: Any = None, dtype: Any = tf.float32) -> None:
        """Takes the bounds."""
        super().__init__(minval=minval, maxval=maxval, seed=seed, dtype=dtype)


class TruncatedNormal(tf.initializers.truncated_normal):
    """Numbers of a normal distribution of deviation 0.05, redrawn beyond two deviations."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None, dtype: Any = tf.float32) -> None:
        """Takes the mean and the deviation."""
        super().__init__(mean=mean, stddev=stddev, seed=seed, dtype=dtype)


_CLASSES: Final[dict[Any, tuple[str, ...]]] = {
    tf.initializers.zeros: ("Zeros", "zeros", "zero"),
    tf.initializers.ones: ("Ones", "ones", "one"),
    tf.initializers.constant: ("Constant", "constant"),
    tf.initializers.identity: ("Identity", "identity"),
    tf.initializers.orthogonal: ("Orthogonal", "orthogonal"),
    tf.initializers.variance_scaling: ("VarianceScaling",),
    tf.initializers.glorot_normal: ("glorot_normal",),
    tf.initializers.glorot_uniform: ("glorot_uniform",),
    RandomNormal: ("RandomNormal", "random_normal", "normal"),
    RandomUniform: ("RandomUniform", "random_uniform", "uniform"),
    TruncatedNormal: ("TruncatedNormal", "truncated_normal"),
}
for _class, _names in _CLASSES.items():
    for _name in _names:
        registry.add(_name, _class)
        if _name not in ("zero", "one"):
            export(f"keras.initializers.{_name}")(_class)
    registry.add(_class.__name__, _class)
for _name in ("he_normal", "he_uniform", "lecun_normal", "lecun_uniform"):
    _function = getattr(tf.initializers, _name)
    registry.add(_name, _function)
    export(f"keras.initializers.{_name}")(_function)
export("keras.initializers.Initializer")(tf.initializers.zeros.__mro__[1])
export_registry("keras.initializers", registry)


def initializer_of(identifier: Any) -> Any:
    """The initializer of a name, a config or an object; functions that make one are called."""
    found = registry.get(identifier)
    return found() if isinstance(identifier, str) and identifier.startswith(("he_", "lecun_")) else found
