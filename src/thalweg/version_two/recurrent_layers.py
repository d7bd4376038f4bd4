"""Recurrent layers with the defaults of TensorFlow 2: sigmoid gates, and a GRU that resets after the product."""

from __future__ import annotations

from typing import Any

from thalweg.version_two.public_names import OTHERWISE, tf


def _with_defaults(base: Any, defaults: dict[str, Any]) -> type:
    def __init__(self: Any, units: int, *args: Any, **kwargs: Any) -> None:
        given = defaults if len(args) < 2 else {key: defaults[key] for key in defaults if "activation" not in key}
        base.__init__(self, units, *args, **{**given, **kwargs})

    return type(base.__name__, (base,), {"__init__": __init__, "__doc__": base.__doc__, "__module__": __name__})


for _name, _defaults in (
    ("LSTM", {"recurrent_activation": "sigmoid"}),
    ("GRU", {"recurrent_activation": "sigmoid", "reset_after": True}),
):
    for _kind in (_name, f"{_name}Cell"):
        OTHERWISE[f"keras.layers.{_kind}"] = _with_defaults(getattr(tf.keras.layers, _kind), _defaults)
