"""The one registry of ops: signatures, attributes, shape functions, gradients, Python kernels and public names.

An op is declared in a line or two, in the words of TensorFlow's op definitions:

    define("MatMul", "a: T, b: T -> product: T",
           "transpose_a: bool = false, transpose_b: bool = false, T: {float, double}", shape=matmul_shape)

The strings are parsed when the op is first used, so that declaring several hundred ops costs an import almost nothing.
`op_signature` holds the grammar. Everything else (public namespace, serialization, tests) derives from what is here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from thalweg import errors
from thalweg.graph.definitions.op_signature import ArgDef, AttrDef, parse_attrs, parse_signature
from thalweg.graph.definitions.work import WorkFunction
from thalweg.graph.op_effects import Effect, Flow
from thalweg.platform.deprecation import deprecated_alias

F = TypeVar("F")

ShapeFunction = Callable[[Any], Any]
GradientFunction = Callable[..., Any]


class ZeroGradient:
    """A gradient that is zero wherever it is defined: that of a slope which is constant, piece by piece.

    Nodes before it get zero gradients, too, and none of them is computed: only what the caller of `tf.gradients` asks
    for becomes a tensor of zeros.
    """

    def __repr__(self) -> str:
        return "ZERO_GRADIENT"


ZERO_GRADIENT = ZeroGradient()
PythonKernel = Callable[[list[Any], dict[str, Any]], Any]


class OpDef:
    """What an op is: its arguments, results and attributes, and the functions that belong to it.

    Attributes:
        name: The op type, such as 'MatMul'.
        stateful: Whether two runs may differ (variables, random numbers, queues): never folded, merged or dropped. What
            TensorFlow's OpDef says; `effect` says more.
        effect: What a run does beside computing its outputs.
        flow: How tensors get from its inputs to its outputs.
        commutative: Whether the inputs may be swapped.
        aggregate: Whether it sums inputs of one shape, so that chains of it may be merged.
        allows_uninitialized: Whether a reference input may point to a variable without a value.
        shape: The shape function, or None: all outputs unknown.
        doc: One sentence for the documentation.
        module: The Python module that declares it.
        python_kernel: An implementation on NumPy, when the op has no native kernel.
        runs_user_code: Whether a run calls Python functions of the user, which may wait for other nodes of the step.
        looks_at_step: Whether the kernel in Python asks now and then whether its step has ended.
        work: How much a node has to do (graph/definitions/work.py), or None: one pass over inputs and outputs.
    """

    __slots__ = (
        "_attrs", "_attrs_text", "_inputs", "_outputs", "_signature", "aggregate", "allows_uninitialized",
        "commutative", "doc", "effect", "flow", "looks_at_step", "module", "name", "prepared", "python_kernel",
        "runs_user_code", "shape", "stateful", "work",
    )  # fmt: skip

    def __init__(self, name: str, signature: str, attrs: str, shape: ShapeFunction | None, stateful: bool) -> None:
        self.name = name
        self._signature = signature
        self._attrs_text = attrs
        self._inputs: tuple[ArgDef, ...] | None = None
        self._outputs: tuple[ArgDef, ...] | None = None
        self._attrs: dict[str, AttrDef] | None = None
        self.shape = shape
        self.stateful = stateful
        self.effect = Effect.UNKNOWN if stateful else Effect.NONE
        self.flow = Flow.NONE
        self.commutative = False
        self.aggregate = False
        self.allows_uninitialized = False
        self.doc = ""
        self.module = ""
        self.python_kernel: PythonKernel | None = None
        self.runs_user_code = False
        self.looks_at_step = False
        self.work: WorkFunction | None = None
        self.prepared: Any = None  # PreparedOp, made by `prepared_op.prepare` when the op is used first.

    def _parse(self) -> None:
        attrs = parse_attrs(self.name, self._attrs_text)
        inputs, outputs = parse_signature(self.name, self._signature, attrs)
        # Last, and all at once, so that a second thread never sees a half-parsed definition.
        self._outputs, self._attrs, self._inputs = outputs, attrs, inputs

    @property
    def inputs(self) -> tuple[ArgDef, ...]:
        """The data inputs, in order."""
        if self._inputs is None:
            self._parse()
        assert self._inputs is not None
        return self._inputs

    @property
    def outputs(self) -> tuple[ArgDef, ...]:
        """The outputs, in order."""
        if self._inputs is None:
            self._parse()
        assert self._outputs is not None
        return self._outputs

    @property
    def attrs(self) -> dict[str, AttrDef]:
        """The attributes by name, in the order of their declaration."""
        if self._inputs is None:
            self._parse()
        assert self._attrs is not None
        return self._attrs

    @property
    def is_foldable(self) -> bool:
        """Whether a node of this type may be computed ahead of the step when its inputs are constants."""
        if self.stateful or self.effect is not Effect.NONE:
            return False
        # Control flow depends on dead tokens and on the step's frames; bodies of functions are inlined before folding.
        flow = self.flow
        return (flow is Flow.NONE or flow is Flow.FORWARD) and bool(self.outputs)

    @property
    def has_gradient(self) -> bool:
        """Whether a gradient function, or the statement that there is none, is registered."""
        return self.name in _GRADIENTS

    def __repr__(self) -> str:
        return f"<OpDef {self.name}({self._signature})>"


_OPS: dict[str, OpDef] = {}
_GRADIENTS: dict[str, GradientFunction | None] = {}
_EXPORTS: dict[str, Any] = {}
_DEPRECATED: dict[str, str] = {}


def define(
    name: str,
    signature: str,
    attrs: str = "",
    *,
    shape: ShapeFunction | None = None,
    effect: Effect | None = None,
    flow: Flow = Flow.NONE,
    stateful: bool | None = None,
    commutative: bool = False,
    aggregate: bool = False,
    allows_uninitialized: bool = False,
    doc: str = "",
) -> OpDef:
    """Declares an op.

    Args:
        name: The op type. An op can be declared once.
        signature: Inputs and outputs: `"a: T, n: N * T, i: int32, l: Tlist, r: Ref(T) -> output: T"`.
        attrs: Attributes: `"T: {float, double}, N: int >= 1, axis: int = 0, Tlist: list(type), p: {'SAME', 'VALID'}"`.
        shape: Function from a ShapeContext to the TensorShape of the output, or to a list with one per output.
        effect: What a run does beside computing outputs; nothing if not given.
        flow: How tensors get from inputs to outputs, for control flow, calls and ops that forward their input.
        stateful: What TensorFlow's OpDef says; needed only where it does not follow from `effect`.
        commutative: Whether swapping the inputs changes nothing.
        aggregate: Whether the op adds up inputs of one shape.
        allows_uninitialized: Whether a reference input may have no value yet.
        doc: One sentence.

    Returns:
        The definition.
    """
    if name in _OPS:
        raise ValueError(f"Op '{name}' is defined twice.")
    if stateful is None:
        stateful = effect is not None and effect.is_stateful
    op_def = OpDef(name, signature, attrs, shape, stateful)
    op_def.effect = op_def.effect if effect is None else effect
    op_def.flow = flow
    op_def.commutative = commutative
    op_def.aggregate = aggregate
    op_def.allows_uninitialized = allows_uninitialized
    op_def.doc = doc
    op_def.module = sys._getframe(1).f_globals["__name__"]
    _OPS[name] = op_def
    return op_def


def op_def(name: str) -> OpDef:
    """Returns the definition of an op type.

    Raises:
        errors.NotFoundError: If no such op is defined.
    """
    try:
        return _OPS[name]
    except KeyError:
        pass
    import difflib

    near = difflib.get_close_matches(str(name), _OPS, 1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise errors.NotFoundError(None, None, f"Op type not registered '{name}' in this build of Thalweg.{hint}")


def find_op(name: str) -> OpDef | None:
    """The definition of an op type, or None if there is none."""
    return _OPS.get(name)


def effect_of(name: str) -> Effect:
    """The effect of an op type; UNKNOWN if it is not defined here, as the names of functions are."""
    definition = _OPS.get(name)
    return Effect.UNKNOWN if definition is None else definition.effect


def flow_of(name: str) -> Flow:
    """The flow of an op type; NONE if it is not defined here."""
    definition = _OPS.get(name)
    return Flow.NONE if definition is None else definition.flow


def is_defined(name: str) -> bool:
    """Whether an op type is defined."""
    return name in _OPS


def all_ops() -> Iterator[OpDef]:
    """All definitions, ordered by name."""
    return iter([_OPS[name] for name in sorted(_OPS)])


def gradient(*op_types: str) -> Callable[[F], F]:
    """Registers the decorated function `fn(op, *grads)` as the gradient of one or more op types.

    The function gets the Operation and one gradient per output (None where nothing flows back), and returns one entry
    per data input: a Tensor, an IndexedSlices, ZERO_GRADIENT or None.
    """

    def register(function: F) -> F:
        for op_type in op_types:
            _set_gradient(op_type, function)  # type: ignore[arg-type]
        return function

    return register


def not_differentiable(*op_types: str) -> None:
    """States that nothing ever flows back through these op types."""
    for op_type in op_types:
        _set_gradient(op_type, None)


def _set_gradient(op_type: str, function: GradientFunction | None) -> None:
    if not isinstance(op_type, str):
        raise TypeError(f"op_type must be a string, got {op_type!r}.")
    if op_type in _GRADIENTS:
        raise KeyError(f"Registering two gradient with name '{op_type}'! A gradient can be registered only once.")
    _GRADIENTS[op_type] = function


def _forget_gradient(op_type: str) -> None:
    _GRADIENTS.pop(op_type, None)


def gradient_function(op_type: str) -> GradientFunction | None:
    """Returns the gradient function of an op type, None for one that is not differentiable.

    Raises:
        LookupError: If neither was ever registered.
    """
    try:
        return _GRADIENTS[op_type]
    except KeyError:
        raise LookupError(
            f"No gradient defined for operation type '{op_type}'. Register one with "
            f"tf.RegisterGradient('{op_type}'), or "
            f"declare it constant with tf.NotDifferentiable('{op_type}')."
        ) from None


def python_kernel(*op_types: str, runs_user_code: bool = False, looks_at_step: bool = False) -> Callable[[F], F]:
    """Registers `fn(inputs, attrs)` on NumPy arrays as the implementation of ops without a native kernel.

    It returns one array, or a sequence with one per output. The executor calls it under the GIL.

    Args:
        *op_types: The ops.
        runs_user_code: Whether it calls functions of the user, which may wait for other nodes of the step.
        looks_at_step: Whether it asks the core now and then whether its step has ended, and writes nothing but outputs.
    """

    def register(function: F) -> F:
        for op_type in op_types:
            op_def(op_type).python_kernel = function  # type: ignore[assignment]
            op_def(op_type).runs_user_code = runs_user_code
            op_def(op_type).looks_at_step = looks_at_step
        return function

    return register


def work(rule: WorkFunction, *op_types: str) -> None:
    """States how much work nodes of these op types do, where it is not one pass over their inputs and outputs."""
    for op_type in op_types:
        op_def(op_type).work = rule


def export(*names: str, deprecated: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Makes a function or class public under `tf.`, with dots for submodules: `@export("matmul", "linalg.matmul")`.

    Args:
        *names: Current names.
        deprecated: Old spellings, which still work and warn once, naming the first current one.
    """

    def register(value: F) -> F:
        for name in names:
            _set_export(name, value)
        for name in deprecated:
            _set_export(name, deprecated_alias(name, value, names[0]) if callable(value) else value)
            _DEPRECATED[name] = names[0]
        return value

    return register


def export_value(value: Any, *names: str) -> None:
    """Makes a constant public under `tf.`."""
    for name in names:
        _set_export(name, value)


def _set_export(name: str, value: Any) -> None:
    if name in _EXPORTS and _EXPORTS[name] is not value:
        raise ValueError(f"The public name 'tf.{name}' is exported twice, by {_EXPORTS[name]!r} and {value!r}.")
    _EXPORTS[name] = value


def exports() -> dict[str, Any]:
    """Public names (dotted) and what they stand for."""
    return _EXPORTS


def deprecated_exports() -> dict[str, str]:
    """Old spellings, and the current one of each."""
    return _DEPRECATED


@export("RegisterGradient")
class RegisterGradient:
    """A decorator that registers the gradient of an op type, or of a name for `Graph.gradient_override_map`.

    Example:
        >>> @tf.RegisterGradient("PassThrough")
        ... def _pass_through(op, grad):
        ...     return grad
    """

    def __init__(self, op_type: str) -> None:
        """Takes the op type, or any other name that a gradient_override_map will use."""
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string, got {op_type!r}.")
        self._op_type = op_type

    def __call__(self, function: F) -> F:
        """Registers `function`, and returns it unchanged."""
        _set_gradient(self._op_type, function)  # type: ignore[arg-type]
        return function


@export("NotDifferentiable", "no_gradient", "NoGradient")
def _not_differentiable(op_type: str) -> None:
    """States that ops of type `op_type` are not differentiable: gradients through them are None."""
    _set_gradient(op_type, None)
