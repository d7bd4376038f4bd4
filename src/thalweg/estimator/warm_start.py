"""WarmStartSettings: which variables of a new model begin with the values of another one's checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


class _Settings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Any
    var_name_to_prev_var_name: Any


@export("estimator.WarmStartSettings")
class WarmStartSettings(_Settings):
    """The arguments of `tf.train.warm_start`, for the `warm_start_from` of an Estimator.

    Example:
        >>> tf.estimator.WarmStartSettings("/tmp/model", vars_to_warm_start=".*kernel").vars_to_warm_start
        '.*kernel'
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Any = None,
        var_name_to_prev_var_name: Any = None,
    ) -> WarmStartSettings:
        """Checks that a checkpoint is named.

        Raises:
            ValueError: If it is not.
        """
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def settings_of(given: Any) -> WarmStartSettings | None:
    """The settings that an Estimator was given: as they are, or the path of a checkpoint or SavedModel.

    Raises:
        ValueError: If it is neither.
    """
    if given is None or isinstance(given, WarmStartSettings):
        return given
    if isinstance(given, (str, bytes)):
        path = tf.compat.as_str_any(given)
        if tf.saved_model.maybe_saved_model_directory(path):
            path = f"{path}/variables/variables"
        return WarmStartSettings(path)
    raise ValueError(f"warm_start_from must be a string or a WarmStartSettings, got {given!r}.")
