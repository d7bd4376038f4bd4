"""ProfileOptionBuilder: what `tf.profiler.profile` counts, shows and sorts by, as a dictionary."""

from __future__ import annotations

import copy
from typing import Any, Final

_DEFAULTS: Final[dict[str, Any]] = {
    "max_depth": 100,
    "min_bytes": 0,
    "min_micros": 0,
    "min_params": 0,
    "min_float_ops": 0,
    "min_occurrence": 0,
    "order_by": "name",
    "account_type_regexes": [".*"],
    "start_name_regexes": [".*"],
    "trim_name_regexes": [],
    "show_name_regexes": [".*"],
    "hide_name_regexes": [],
    "account_displayed_op_only": False,
    "select": ["micros"],
    "step": -1,
    "assumed_batch": None,
    "output": "stdout",
}
TRAINABLE: Final = "_trainable_variables"


class ProfileOptionBuilder:
    """Builds options: begin with those of a class method, or with none, and change them.

    Example:
        >>> tf.profiler.ProfileOptionBuilder().with_max_depth(2).build()["max_depth"]
        2
    """

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        """Takes options to begin with."""
        self._options = copy.deepcopy(options if options is not None else _DEFAULTS)

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Options that count the parameters of trainable variables."""
        return {
            **copy.deepcopy(_DEFAULTS), "max_depth": 10000, "account_type_regexes": [TRAINABLE],
            "account_displayed_op_only": True, "select": ["params"],
        }  # fmt: skip

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Options that count floating-point operations."""
        return {
            **copy.deepcopy(_DEFAULTS), "max_depth": 10000, "min_float_ops": 1, "order_by": "float_ops",
            "account_displayed_op_only": True, "select": ["float_ops"],
        }  # fmt: skip

    @staticmethod
    def time_and_memory(
        min_micros: int = 1, min_bytes: int = 1, min_accelerator_micros: int = 0, min_cpu_micros: int = 0,
        min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Options that show nodes by time and memory; nodes below all bounds are left out."""
        return {
            **copy.deepcopy(_DEFAULTS), "max_depth": 10000, "min_bytes": min_bytes, "min_peak_bytes": min_peak_bytes,
            "min_residual_bytes": min_residual_bytes, "min_output_bytes": min_output_bytes, "min_micros": min_micros,
            "min_accelerator_micros": min_accelerator_micros, "min_cpu_micros": min_cpu_micros, "order_by": "micros",
            "account_displayed_op_only": True, "select": ["micros", "bytes"],
        }  # fmt: skip

    def build(self) -> dict[str, Any]:
        """The options."""
        return copy.deepcopy(self._options)

    def _with(self, **changes: Any) -> ProfileOptionBuilder:
        self._options.update(changes)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Shows nodes down to this depth."""
        return self._with(max_depth=max_depth)

    def with_min_memory(
        self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0
    ) -> ProfileOptionBuilder:
        """Shows nodes with at least this much memory."""
        return self._with(
            min_bytes=min_bytes,
            min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes,
            min_output_bytes=min_output_bytes,
        )

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        """Shows nodes that took at least this long."""
        return self._with(
            min_micros=min_micros, min_accelerator_micros=min_accelerator_micros, min_cpu_micros=min_cpu_micros
        )

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Shows nodes with at least this many parameters."""
        return self._with(min_params=min_params)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Shows nodes with at least this many floating-point operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Shows op types that occur at least this often."""
        return self._with(min_occurrence=min_occurrence)

    def with_accounted_types(self, account_type_regexes: list[str]) -> ProfileOptionBuilder:
        """Counts nodes whose op type, or device, matches one of these."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: list[str] | None = None,
        show_name_regexes: list[str] | None = None,
        hide_name_regexes: list[str] | None = None,
        trim_name_regexes: list[str] | None = None,
    ) -> ProfileOptionBuilder:
        """Shows nodes by their names: where to start, what to show, what to hide, and below what to stop."""
        given = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(**{name: list(value) for name, value in given.items() if value is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Whether totals count only what is shown."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Prints nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Prints to standard output."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Writes to a file."""
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """Writes a Chrome trace."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def with_pprof_output(self, pprof_file: str) -> ProfileOptionBuilder:
        """Writes a profile for pprof, with the columns of `select`; for the view "code"."""
        return self._with(output=f"pprof:outfile={pprof_file}")

    def with_assumed_batch(self, size: int) -> ProfileOptionBuilder:
        """Counts floating-point operations as if every size that is unknown before a step, a batch's, was `size`."""
        if size < 1:
            raise ValueError(f"The assumed size must be at least 1, got {size}.")
        return self._with(assumed_batch=size)

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Shows one step; -1: the mean of all."""
        return self._with(step=step)

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Sorts by a column of `select`, or by "name"."""
        return self._with(order_by=attribute)

    def select(self, attributes: list[str]) -> ProfileOptionBuilder:
        """Shows these: micros, bytes, output_bytes, params, float_ops, occurrence, device, and their like."""
        return self._with(select=list(attributes))
