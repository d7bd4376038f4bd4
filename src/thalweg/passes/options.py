"""Which passes a session runs over its steps, read from its ConfigProto."""

from __future__ import annotations

from typing import Any, NamedTuple


class PassOptions(NamedTuple):
    """What the passes may do; by default, everything that makes a step faster.

    Attributes:
        optimized: Whether any of them runs (`optimizer_options.opt_level` is not L0).
        fused: Whether neighbouring nodes may become one (`rewrite_options.remapping`).
        layouts: Whether images may travel in another layout than the program's (`rewrite_options.layout_optimizer`).
        any_algorithm: Whether sums may be formed by another algorithm (`rewrite_options.implementation_selector`).
        inlined: Whether the bodies of functions may take the place of calls (`rewrite_options.function_optimization`).
        separate: Whether every node runs by itself, so that none waits for its neighbours' inputs (partial runs).
    """

    optimized: bool = True
    fused: bool = True
    layouts: bool = True
    any_algorithm: bool = True
    inlined: bool = True
    separate: bool = False


def pass_options(config: Any) -> PassOptions:
    """The options that a ConfigProto (or None) asks for."""
    if config is None:
        return PassOptions()
    rewrite = config.graph_options.rewrite_options
    return PassOptions(
        config.graph_options.optimizer_options.opt_level != -1,
        rewrite.remapping != rewrite.OFF,
        rewrite.layout_optimizer != rewrite.OFF,
        rewrite.implementation_selector != rewrite.OFF,
        rewrite.function_optimization != rewrite.OFF,
    )
