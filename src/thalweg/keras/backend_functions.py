"""tf.keras.backend: functions of tensors under Keras's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.definitions.op_registry import export_value
from thalweg.keras import activation_functions, loss_functions
from thalweg.keras.backend_state import floatx, get_session
from thalweg.keras.core_layers import choose
from thalweg.keras.layer_base import call_of
from thalweg.keras.public_names import tf


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """A variable of a value."""
    return tf.Variable(value, dtype=tf.as_dtype(dtype or floatx()), name=name, constraint=constraint)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A constant."""
    return tf.constant(value, dtype=dtype or floatx(), shape=shape, name=name or "Const")


def placeholder(shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False,
                name: str | None = None) -> Any:  # fmt: skip
    """A placeholder of a shape or a rank."""
    sizes = shape if shape is not None else None if ndim is None else [None] * ndim
    make = tf.sparse_placeholder if sparse else tf.placeholder
    return make(dtype or floatx(), sizes, name)


def get_value(x: Any) -> Any:
    """The value of a variable or tensor."""
    return get_session().run(x)


def batch_get_value(tensors: Any) -> Any:
    """The values of several variables."""
    return get_session().run(list(tensors)) if tensors else []


def set_value(x: Any, value: Any) -> None:
    """Sets a variable."""
    x.load(np.asarray(value, dtype=x.dtype.as_numpy_dtype), get_session())


def batch_set_value(tuples: Any) -> None:
    """Sets several variables: pairs of a variable and its value."""
    for x, value in tuples:
        set_value(x, value)


def eval(x: Any) -> Any:
    """The value of a tensor."""
    return get_session().run(x)


def int_shape(x: Any) -> Any:
    """The static shape as a tuple; None where the rank is unknown."""
    return None if x.shape.ndims is None else tuple(x.shape.as_list())


def ndim(x: Any) -> Any:
    """The rank, or None."""
    return x.shape.ndims


def dtype(x: Any) -> str:
    """The name of the type."""
    return str(x.dtype.base_dtype.name)


def is_keras_tensor(x: Any) -> bool:
    """Whether a tensor came out of a Keras layer or `Input`."""
    if not isinstance(x, (tf.Tensor, tf.Variable, tf.SparseTensor)):
        raise ValueError(f"Unexpectedly found an instance of type `{type(x)}`. Expected a symbolic tensor instance.")
    return isinstance(x, tf.Tensor) and call_of(x) is not None


def is_sparse(tensor: Any) -> bool:
    """Whether it is a SparseTensor."""
    return isinstance(tensor, tf.SparseTensor)


def dot(x: Any, y: Any) -> Any:
    """A product of matrices; of more axes, over the last of x and the last but one of y."""
    if isinstance(x, tf.SparseTensor):
        return tf.sparse_tensor_dense_matmul(x, y)
    rank = y.shape.ndims
    if x.shape.ndims == rank == 2:
        return tf.matmul(x, y)
    return tf.tensordot(x, y, [[x.shape.ndims - 1], [max(rank - 2, 0)]])


def random_normal_variable(shape: Any, mean: float, scale: float, dtype: Any = None, name: str | None = None,
                           seed: Any = None) -> Any:  # fmt: skip
    """A variable of normal numbers."""
    return tf.Variable(tf.random_normal(shape, mean, scale, dtype or floatx(), seed), name=name)


def random_uniform_variable(shape: Any, low: float, high: float, dtype: Any = None, name: str | None = None,
                            seed: Any = None) -> Any:  # fmt: skip
    """A variable of uniform numbers."""
    return tf.Variable(tf.random_uniform(shape, low, high, dtype or floatx(), seed), name=name)


def random_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    """Normal numbers."""
    return tf.random_normal(shape, mean, stddev, dtype or floatx(), seed)


def random_uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    """Uniform numbers."""
    return tf.random_uniform(shape, minval, maxval, dtype or floatx(), seed)


def random_binomial(shape: Any, p: float = 0.0, dtype: Any = None, seed: Any = None) -> Any:
    """Ones with probability p, else zeros."""
    kind = dtype or floatx()
    return tf.cast(tf.random_uniform(shape, seed=seed) <= p, kind)


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    """Normal numbers, redrawn beyond two deviations."""
    return tf.truncated_normal(shape, mean, stddev, dtype or floatx(), seed)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of zeros."""
    return tf.Variable(tf.zeros(shape, dtype or floatx()), name=name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of ones."""
    return tf.Variable(tf.ones(shape, dtype or floatx()), name=name)


def eye(size: int, dtype: Any = None, name: str | None = None) -> Any:
    """A variable of the identity."""
    return tf.Variable(tf.eye(size, dtype=dtype or floatx()), name=name)


def batch_flatten(x: Any) -> Any:
    """All axes but the first as one."""
    return tf.reshape(x, [tf.shape(x)[0], -1])


def flatten(x: Any) -> Any:
    """All axes as one."""
    return tf.reshape(x, [-1])


def permute_dimensions(x: Any, pattern: Any) -> Any:
    """The axes in another order."""
    return tf.transpose(x, pattern)


def repeat(x: Any, n: int) -> Any:
    """Each row n times, as a sequence."""
    return tf.tile(tf.expand_dims(x, 1), [1, n, 1])


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Each element several times along an axis."""
    return tf.repeat(x, rep, axis=axis)


def concatenate(tensors: Any, axis: int = -1) -> Any:
    """Tensors one after the other."""
    return tf.concat(tensors, axis)


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Values between bounds."""
    return tf.clip_by_value(x, min_value, max_value)


def sqrt(x: Any) -> Any:
    """The root; of negative values that of zero."""
    return tf.sqrt(tf.maximum(x, 0))


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two by a scalar, or element by element."""
    if condition.shape.ndims == 0:
        yes, no = (
            each if callable(each) else (lambda value=each: value) for each in (then_expression, else_expression)
        )
        return tf.cond(tf.cast(condition, tf.bool), yes, no)
    yes, no = (each() if callable(each) else each for each in (then_expression, else_expression))
    chosen = tf.cast(condition, tf.bool)
    while chosen.shape.ndims < yes.shape.ndims:
        chosen = tf.expand_dims(chosen, -1)
    return tf.where(tf.broadcast_to(chosen, tf.shape(yes)), yes, no)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """The first while training, else the second."""
    return choose(training, _callable(x), _callable(alt))


def _callable(value: Any) -> Any:
    return value if callable(value) else lambda: value


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """The second while training, else the first."""
    return in_train_phase(alt, x, training)


def gradients(loss: Any, variables: Any) -> Any:
    """The gradients of a loss."""
    return tf.gradients(loss, variables)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Sets elements to zero."""
    return tf.nn.dropout(x, rate=level, noise_shape=noise_shape, seed=seed)


def l2_normalize(x: Any, axis: Any = None) -> Any:
    """A tensor of norm one along an axis."""
    return tf.nn.l2_normalize(x, axis=axis)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance."""
    return tf.reduce_mean(tf.square(x - tf.reduce_mean(x, axis, keepdims=True)), axis, keepdims=keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The deviation."""
    return tf.sqrt(var(x, axis, keepdims))


def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """The cross entropy of rows."""
    return loss_functions.categorical_crossentropy(target, output, from_logits)


def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """A function of arrays: runs a step that feeds the inputs, fetches the outputs and runs the updates."""
    several = isinstance(outputs, (list, tuple))
    assignments = [tf.assign(*each) if isinstance(each, tuple) else each for each in updates or ()]

    def call(values: Any) -> Any:
        fetched = get_session().run([tf.nest.flatten(outputs), assignments], dict(zip(inputs, values, strict=True)))[0]
        return fetched if several else fetched[0]

    return call


def argmax(x: Any, axis: int = -1) -> Any:
    """The index of the largest element along an axis, by default the last."""
    return tf.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """The index of the least element along an axis, by default the last."""
    return tf.argmin(x, axis)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean; that of booleans is the share of those that are true."""
    x = tf.convert_to_tensor(x)
    return tf.reduce_mean(tf.cast(x, floatx()) if x.dtype.base_dtype == tf.bool else x, axis, keepdims)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """Adds an axis of size one, by default behind the others."""
    return tf.expand_dims(x, axis)


def tile(x: Any, n: Any) -> Any:
    """Repeats a tensor n times along each axis."""
    return tf.tile(x, [n] if isinstance(n, int) else n)


def reverse(x: Any, axes: Any) -> Any:
    """Reverses the order along an axis, or along several."""
    return tf.reverse(x, [axes] if isinstance(axes, int) else axes)


def map_fn(fn: Any, elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """Calls a function with each row."""
    return tf.map_fn(fn, elems, name=name, dtype=dtype)


def cast_to_floatx(x: Any) -> Any:
    """A tensor or an array as one of `floatx`."""
    return tf.cast(x, floatx()) if isinstance(x, (tf.Tensor, tf.SparseTensor)) else np.asarray(x, dtype=floatx())


def print_tensor(x: Any, message: str = "") -> Any:
    """The tensor; a step that computes it prints a message and its value."""
    return tf.Print(x, [x], message)


def count_params(x: Any) -> int:
    """The number of elements."""
    return int(x.shape.num_elements())


def to_dense(tensor: Any) -> Any:
    """A tensor as a dense one."""
    return tf.sparse_tensor_to_dense(tensor) if isinstance(tensor, tf.SparseTensor) else tensor


def get_uid(prefix: str = "") -> int:
    """A number for a prefix in the graph: 1, then 2, and so on."""
    numbers = tf.get_default_graph()._attachments.setdefault("keras_uids", {})
    numbers[prefix] = numbers.get(prefix, 0) + 1
    return int(numbers[prefix])


def reset_uids() -> None:
    """Lets numbers of `get_uid` start again."""
    tf.get_default_graph()._attachments.pop("keras_uids", None)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Moves a variable towards a value."""
    return tf.assign_add(x, (value - x) * (1.0 - momentum))


def shape(x: Any) -> Any:
    """The sizes of the axes, as a tensor."""
    return tf.shape(x)


def transpose(x: Any) -> Any:
    """The tensor with its axes in reverse order."""
    return tf.transpose(x)


def reshape(x: Any, shape: Any) -> Any:
    """The same elements in another shape."""
    return tf.reshape(x, shape)


def squeeze(x: Any, axis: Any) -> Any:
    """Removes an axis of size one."""
    return tf.squeeze(x, axis)


def one_hot(indices: Any, num_classes: int) -> Any:
    """A one at each index, zeros elsewhere, along a new last axis."""
    return tf.one_hot(indices, num_classes)


def stop_gradient(variables: Any) -> Any:
    """A tensor, or several, as constants for gradients."""
    if isinstance(variables, (list, tuple)):
        return [tf.stop_gradient(each) for each in variables]
    return tf.stop_gradient(variables)


def softplus(x: Any) -> Any:
    """The logarithm of 1 + exp(x)."""
    return tf.nn.softplus(x)


def softsign(x: Any) -> Any:
    """The quotient x / (1 + |x|)."""
    return tf.nn.softsign(x)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Any:
    """The numbers from start (or zero) to stop, without it."""
    if stop is None and isinstance(start, int) and start < 0:
        start = 0
    found = tf.range(start, delta=step) if stop is None else tf.range(start, stop, step)
    return tf.cast(found, dtype)


def update(x: Any, new_x: Any) -> Any:
    """Assigns a value to a variable."""
    return tf.assign(x, new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Adds to a variable."""
    return tf.assign_add(x, increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtracts from a variable."""
    return tf.assign_sub(x, decrement)


for _function in (
    variable, constant, placeholder, get_value, batch_get_value, set_value, batch_set_value, eval, int_shape, ndim,
    dtype, is_keras_tensor, is_sparse, dot, random_normal_variable, random_uniform_variable, random_normal,
    random_uniform, random_binomial, truncated_normal, zeros, ones, eye, batch_flatten, flatten, permute_dimensions,
    repeat, repeat_elements, concatenate, clip, sqrt, switch, in_train_phase, in_test_phase, gradients, dropout,
    l2_normalize, var, std, categorical_crossentropy, function, argmax, argmin, mean, expand_dims, tile, reverse,
    map_fn, cast_to_floatx, print_tensor, count_params, to_dense, get_uid, reset_uids,
    moving_average_update, shape, transpose, reshape, squeeze, one_hot, stop_gradient, softplus, softsign, arange,
    update, update_add, update_sub,
):  # fmt: skip
    export_value(_function, f"keras.backend.{_function.__name__}")

for _name, _target in {
    "cast": tf.cast, "square": tf.square,
    "abs": tf.abs, "exp": tf.exp, "log": tf.log, "pow": tf.pow, "sign": tf.sign, "round": tf.round,
    "sum": tf.reduce_sum, "max": tf.reduce_max, "min": tf.reduce_min, "prod": tf.reduce_prod,
    "any": tf.reduce_any, "all": tf.reduce_all, "maximum": tf.maximum,
    "minimum": tf.minimum, "equal": tf.equal, "not_equal": tf.not_equal, "greater": tf.greater, "less": tf.less,
    "greater_equal": tf.greater_equal, "less_equal": tf.less_equal,
    "stack": tf.stack, "gather": tf.gather,
    "zeros_like": tf.zeros_like, "ones_like": tf.ones_like,
    "softmax": activation_functions.softmax, "relu": activation_functions.relu, "elu": activation_functions.elu,
    "sigmoid": tf.sigmoid, "hard_sigmoid": activation_functions.hard_sigmoid, "tanh": tf.tanh, "sin": tf.sin,
    "cos": tf.cos, "cumsum": tf.cumsum, "cumprod": tf.cumprod,
    "logsumexp": tf.reduce_logsumexp, "foldl": tf.foldl, "foldr": tf.foldr,
    "in_top_k": tf.nn.in_top_k,
    "name_scope": tf.name_scope, "identity": tf.identity,
    "binary_crossentropy": loss_functions.elementwise_binary_crossentropy,
    "sparse_categorical_crossentropy": loss_functions.sparse_categorical_crossentropy,
}.items():  # fmt: skip
    export_value(_target, f"keras.backend.{_name}")
