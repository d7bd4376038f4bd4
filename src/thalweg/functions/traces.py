"""Traces: those of one Python function in one graph: found by their keys, relaxed to more shapes, counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thalweg.functions.argument_keys import ArgumentKey, changes, difference
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.platform import logging

_FIRST_REPORT = 5  # Traces after which the program is told; then each time their number has doubled.

Specs = Sequence[TensorSpec | None]


class Traces:
    """What a Python function was traced for.

    Attributes:
        calls: How often it was called.
    """

    def __init__(self, relax: bool) -> None:
        """Starts without any; `relax` says whether one trace may serve several shapes."""
        self._relax = relax
        self._by_key: dict[ArgumentKey, Any] = {}
        self._relaxed: dict[Any, tuple[Specs, Any]] = {}  # The last trace of each kind.
        self.calls = 0
        self._count = 0
        self._report_at = _FIRST_REPORT

    def find(self, key: ArgumentKey, specs: Specs) -> Any:
        """The trace for a call; None if there is none."""
        self.calls += 1
        found = self._by_key.get(key)
        if found is None and self._relax:
            covering, trace = self._relaxed.get(_kind(key, specs), ((), None))
            if trace is not None and all(a is None or _covers(a, b) for a, b in zip(covering, specs, strict=True)):
                self._by_key[key] = found = trace
        return found

    def all(self) -> list[Any]:
        """The traces, each once."""
        return list({id(trace): trace for trace in self._by_key.values()}.values())

    def to_trace(self, key: ArgumentKey, specs: Specs) -> Specs:
        """The types and shapes for which to trace a call: relaxed by those of the calls before it."""
        if not self._relax:
            return specs
        before = self._relaxed.get(_kind(key, specs), (specs, None))[0]
        return [
            now if now is None or then is None else TensorSpec(_common(now.shape, then.shape), now.dtype, now.name)
            for now, then in zip(specs, before, strict=True)
        ]

    def add(self, key: ArgumentKey, specs: Specs, traced_for: Specs, trace: Any) -> None:
        """Keeps a trace for a call and for those like it."""
        self._by_key[key] = trace
        self._relaxed[_kind(key, specs)] = traced_for, trace
        self._count += 1

    def report(self, key: ArgumentKey, function: str, names: Callable[[], Sequence[str]]) -> None:
        """Warns, before a call is traced, if many of the calls were: says which argument changed."""
        if self._count + 1 < self._report_at or 2 * self._count < self.calls:
            return
        self._report_at *= 2
        nearest = min(self._by_key, key=lambda old: changes(key, old))
        logging.warn(
            "The tf.function '%s' is traced for the %dth time in %d calls, which takes much longer than a call: %s. "
            "Pass numbers that change as tensors; for tensors of many shapes give an input_signature or "
            "experimental_relax_shapes=True.",
            function, self._count + 1, self.calls, difference(key, nearest, names()),
        )  # fmt: skip


def _kind(key: ArgumentKey, specs: Specs) -> Any:
    """What calls have in common that one trace can serve: all but the sizes of dimensions."""
    atoms = [
        atom if spec is None else (spec.dtype, spec.shape.ndims) for atom, spec in zip(key.atoms, specs, strict=True)
    ]
    return key.form, tuple(atoms)


def _common(a: TensorShape, b: TensorShape) -> TensorShape:
    if a.ndims is None or b.ndims is None:
        return TensorShape(None)
    pairs = zip(a.as_list(), b.as_list(), strict=True)
    return TensorShape([one if one == other else None for one, other in pairs])


def _covers(general: TensorSpec, spec: TensorSpec | None) -> bool:
    assert spec is not None
    if general.shape.ndims is None:
        return True
    pairs = zip(general.shape.as_list(), spec.shape.as_list(), strict=True)
    return all(size is None or size == own for size, own in pairs)
