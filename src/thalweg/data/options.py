"""Options: how a pipeline may be run. Only the order of parallel stages changes the results."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from thalweg.graph.definitions.op_registry import export


class _OptionsBase:
    """A set of named settings, each None until it is set; unknown names are refused."""

    _settings: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        """Nothing is set."""
        object.__setattr__(self, "_values", {})

    def __getattr__(self, name: str) -> Any:
        settings = type(self)._settings
        if name not in settings:
            raise AttributeError(f"{type(self).__name__} has no option '{name}'; it has: {', '.join(settings)}.")
        values = self.__dict__["_values"]
        if name not in values and isinstance(settings[name], type) and issubclass(settings[name], _OptionsBase):
            values[name] = settings[name]()
        return values.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        settings = type(self)._settings
        if name not in settings:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}; it has: "
                                 f"{', '.join(settings)}.")  # fmt: skip
        kind = settings[name]
        if value is not None and kind is not Any and not isinstance(value, kind):
            raise TypeError(f'Property "{name}" must be of type {kind}, got: {value!r} (type: {type(value)})')
        self.__dict__["_values"][name] = value

    def _set_values(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__["_values"].items()
            if value is not None and not (isinstance(value, _OptionsBase) and not value._set_values())
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._set_values() == other._set_values()

    def __hash__(self) -> int:
        return hash(repr(sorted(self._set_values())))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _merged(self, other: Any) -> Any:
        result = type(self)()
        for source in (self, other):
            for name, value in source._set_values().items():
                mine = result.__dict__["_values"].get(name)
                nested = isinstance(value, _OptionsBase)
                result.__dict__["_values"][name] = mine._merged(value) if nested and mine is not None else value
        return result


@export("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """How a dataset is divided among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@export("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """What to do about state outside of a pipeline when its position is saved."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


@export("data.experimental.MapVectorizationOptions")
class MapVectorizationOptions(_OptionsBase):
    """Settings of map vectorization; kept, not used."""

    _settings: ClassVar[dict[str, Any]] = {"enabled": bool, "use_choose_fastest": bool}


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(_OptionsBase):
    """Which rewrites of a pipeline are allowed; kept, not used: Thalweg runs cheap stages inline anyway."""

    _settings: ClassVar[dict[str, Any]] = {
        "apply_default_optimizations": bool, "autotune": bool, "autotune_algorithm": int, "autotune_buffers": bool,
        "autotune_cpu_budget": int, "filter_fusion": bool, "filter_with_random_uniform_fusion": bool,
        "hoist_random_uniform": bool, "inject_prefetch": bool, "map_and_batch_fusion": bool,
        "map_and_filter_fusion": bool, "map_fusion": bool, "map_parallelization": bool,
        "map_vectorization": MapVectorizationOptions, "noop_elimination": bool, "parallel_batch": bool,
        "shuffle_and_repeat_fusion": bool,
    }  # fmt: skip


@export("data.experimental.ThreadingOptions")
class ThreadingOptions(_OptionsBase):
    """How many threads a pipeline may use; kept, not used: it shares the core's pool."""

    _settings: ClassVar[dict[str, Any]] = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


@export("data.experimental.DistributeOptions")
class DistributeOptions(_OptionsBase):
    """How a pipeline is divided among workers."""

    _settings: ClassVar[dict[str, Any]] = {"auto_shard": bool, "auto_shard_policy": AutoShardPolicy, "num_devices": int}


@export("data.experimental.StatsOptions")
class StatsOptions(_OptionsBase):
    """Which statistics a pipeline gathers; kept, not used."""

    _settings: ClassVar[dict[str, Any]] = {
        "aggregator": Any,
        "prefix": str,
        "counter_prefix": str,
        "latency_all_edges": bool,
    }


@export("data.Options")
class Options(_OptionsBase):
    """The options of a dataset.

    Attributes:
        experimental_deterministic: Whether parallel stages give their elements in order (so unless False).
        experimental_distribute, experimental_optimization, experimental_stats, experimental_threading: See their
            classes.

    Example:
        >>> options = tf.data.Options()
        >>> options.experimental_deterministic = False
        >>> tf.data.Dataset.range(3).with_options(options).options().experimental_deterministic
        False
    """

    _settings: ClassVar[dict[str, Any]] = {
        "experimental_deterministic": bool, "deterministic": bool, "experimental_distribute": DistributeOptions,
        "experimental_external_state_policy": ExternalStatePolicy, "experimental_optimization": OptimizationOptions,
        "experimental_slack": bool, "experimental_stateful_whitelist": list, "experimental_stats": StatsOptions,
        "experimental_threading": ThreadingOptions, "threading": ThreadingOptions,
    }  # fmt: skip

    def merge(self, options: Any) -> Options:
        """These options with those that `options` sets put over them."""
        merged: Options = self._merged(options)
        return merged

    def _serialized(self) -> bytes:
        """The options that the core uses, serialized."""
        values = self._set_values()
        ordered = values.get("experimental_deterministic", values.get("deterministic"))
        return b"" if ordered is None else b"deterministic=1" if ordered else b"deterministic=0"
