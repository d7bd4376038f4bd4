"""How a session places nodes that its program leaves open, and measures steps: in a ConfigProto.

The options travel in ConfigProto's `rewrite_options.custom_optimizers`, so that everything that takes a ConfigProto
takes them as well. `graph_options.build_cost_model` and `build_cost_model_after`
mean what they mean in TensorFlow.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from thalweg import errors

_NAME: Final = "placement"


class PlacementOptions(NamedTuple):
    """The placement options of a session.

    Attributes:
        strategy: The name of a strategy (placement/strategies.py); empty for the default, where the cores allow it.
        costs: A file of measured costs, read when the session begins and written when it ends; empty for none.
        measure_every: One step in so many is observed; 0: ever fewer of them, -1: none.
        measure_after: How many steps run before the first that may be observed.
    """

    strategy: str = ""
    costs: str = ""
    measure_every: int = -1
    measure_after: int = 0


def configure(config: Any = None, *, strategy: str = "", costs: str = "") -> Any:
    """Returns a ConfigProto whose sessions place nodes by a strategy and by measured costs.

    Args:
        config: The ConfigProto to change; a new one if there is none.
        strategy: One of `tf.placement.strategy_names()`. Without one, critical-path list scheduling decides, and only
            if the machine has cores for several devices.
        costs: The name of a JSON file. Sessions read measured costs from it if it exists, measure their steps, and
            write the new costs when they are closed.

    Raises:
        ValueError: If there is no such strategy.

    Example:
        >>> config = tf.placement.configure(tf.ConfigProto(device_count={"CPU": 2}), strategy="single")
        >>> with tf.Session(config=config) as sess:
        ...     print(sess.run(tf.constant(1.0) + 1.0))
        2.0
    """
    from tensorboard.compat.proto.config_pb2 import ConfigProto  # Start-up time: protobuf is slow to import.

    # Start-up time: only programs that name a strategy need them.
    from thalweg.placement.planner import chooser

    if strategy:
        chooser(strategy)
    config = ConfigProto() if config is None else config
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    found = next((each for each in optimizers if each.name == _NAME), None) or optimizers.add(name=_NAME)
    for key, value in (("strategy", strategy), ("costs", costs)):
        if value:
            found.parameter_map[key].s = value.encode()
    return config


def placement_options(config: Any) -> PlacementOptions:
    """The options that a ConfigProto (or None) asks for.

    Raises:
        errors.InvalidArgumentError: If it asks for a strategy that does not exist, or for an impossible number.
    """
    if config is None:
        return PlacementOptions()
    graph_options = config.graph_options
    values = {"strategy": "", "costs": ""}
    for each in graph_options.rewrite_options.custom_optimizers:
        if each.name == _NAME:
            for key, value in each.parameter_map.items():
                if key not in values or value.WhichOneof("value") != "s":
                    raise errors.InvalidArgumentError(None, None, f"There is no placement option {key!r} of this type.")
                values[key] = value.s.decode()
    every, after = int(graph_options.build_cost_model), int(graph_options.build_cost_model_after)
    if every < 0 or after < 0:
        raise errors.InvalidArgumentError(
            None, None, f"build_cost_model and build_cost_model_after are numbers of steps, got {every} and {after}."
        )
    measured = every or (0 if values["costs"] else -1)
    if values["strategy"]:
        from thalweg.placement.planner import chooser  # Start-up time: see `configure`.

        try:
            chooser(values["strategy"])
        except ValueError as e:
            raise errors.InvalidArgumentError(None, None, str(e)) from None
    return PlacementOptions(values["strategy"], values["costs"], measured, after)
