"""One set of names for the functions of the graph API (Thalweg, TensorFlow) and of JAX: a program is written once."""

from typing import Any

SAME = "exp log tanh sqrt abs square maximum minimum where floor sin cos matmul logical_and logical_or equal"


class GraphNames:
    """The functions under TensorFlow 1's names."""

    def __init__(self, tf: Any) -> None:
        """Takes them from the module."""
        self.tf = tf
        for name in SAME.split():
            setattr(self, name, getattr(tf, name))
        self.where = getattr(tf, "where_v2", None) or tf.compat.v2.where
        self.sigmoid, self.rsqrt, self.relu, self.erf = tf.sigmoid, tf.rsqrt, tf.nn.relu, tf.erf
        self.softplus, self.softmax, self.log_softmax = tf.nn.softplus, tf.nn.softmax, tf.nn.log_softmax
        self.cond, self.shape_of = tf.cond, tf.shape

    def sum(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """A sum along axes."""
        return self.tf.reduce_sum(x, axis, keepdims=keep)

    def mean(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """A mean along axes."""
        return self.tf.reduce_mean(x, axis, keepdims=keep)

    def max(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """The largest element along axes."""
        return self.tf.reduce_max(x, axis, keepdims=keep)

    def cast(self, x: Any, dtype: str) -> Any:
        """A conversion to the type of that name."""
        return self.tf.cast(x, getattr(self.tf, dtype))

    def constant(self, value: Any, dtype: str) -> Any:
        """A constant of the type of that name."""
        return self.tf.constant(value, getattr(self.tf, dtype))

    def zeros(self, shape: list[int]) -> Any:
        """Zeros of float32."""
        return self.tf.zeros(shape)

    def while_loop(self, condition: Any, body: Any, start: tuple[Any, ...]) -> Any:
        """The final values of a loop."""
        return self.tf.while_loop(condition, body, list(start))

    def scan(self, function: Any, xs: Any, start: Any) -> Any:
        """All states of a recurrence: function(state, x) is the next one."""
        return self.tf.scan(function, xs, initializer=start)

    def foldl(self, function: Any, xs: Any, start: Any) -> Any:
        """The last state of a recurrence."""
        return self.tf.foldl(function, xs, initializer=start)

    def map(self, function: Any, xs: Any) -> Any:
        """The results for all elements."""
        return self.tf.map_fn(function, xs)


class JaxNames:
    """The same functions in JAX."""

    def __init__(self, jax: Any) -> None:
        """Takes them from the module."""
        jnp, nn = jax.numpy, jax.nn
        self.jax, self.jnp = jax, jnp
        for name in SAME.split():
            setattr(self, name, getattr(jnp, name))
        self.sigmoid, self.rsqrt, self.relu, self.erf = nn.sigmoid, jax.lax.rsqrt, nn.relu, jax.lax.erf
        self.softplus, self.softmax, self.log_softmax = nn.softplus, nn.softmax, nn.log_softmax
        self.cond = jax.lax.cond

    def sum(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """A sum along axes."""
        return self.jnp.sum(x, axis, keepdims=keep)

    def mean(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """A mean along axes."""
        return self.jnp.mean(x, axis, keepdims=keep)

    def max(self, x: Any, axis: Any = None, keep: bool = False) -> Any:
        """The largest element along axes."""
        return self.jnp.max(x, axis, keepdims=keep)

    def cast(self, x: Any, dtype: str) -> Any:
        """A conversion to the type of that name."""
        return x.astype(self._dtype(dtype))

    def constant(self, value: Any, dtype: str) -> Any:
        """A constant of the type of that name."""
        return self.jnp.asarray(value, self._dtype(dtype))

    def zeros(self, shape: list[int]) -> Any:
        """Zeros of float32."""
        return self.jnp.zeros(shape, self.jnp.float32)

    def while_loop(self, condition: Any, body: Any, start: tuple[Any, ...]) -> Any:
        """The final values of a loop."""
        return self.jax.lax.while_loop(lambda state: condition(*state), lambda state: body(*state), start)

    def scan(self, function: Any, xs: Any, start: Any) -> Any:
        """All states of a recurrence: function(state, x) is the next one."""

        def step(state: Any, x: Any) -> Any:
            state = function(state, x)
            return state, state

        return self.jax.lax.scan(step, start, xs)[1]

    def foldl(self, function: Any, xs: Any, start: Any) -> Any:
        """The last state of a recurrence."""
        return self.jax.lax.scan(lambda state, x: (function(state, x), None), start, xs)[0]

    def map(self, function: Any, xs: Any) -> Any:
        """The results for all elements, one after the other as in the graph."""
        return self.jax.lax.map(function, xs)

    def _dtype(self, name: str) -> Any:
        return self.jnp.bool_ if name == "bool" else getattr(self.jnp, name)
