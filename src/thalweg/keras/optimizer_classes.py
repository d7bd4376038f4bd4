"""tf.keras.optimizers: Keras's names and defaults on the optimizers of `tf.train`, with a rate that can be changed."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import outermost
from thalweg.keras.named_objects import Registry, export_registry
from thalweg.keras.public_names import tf
from thalweg.keras.symbolic_graph import runs_at_once
from thalweg.trackable.object_graph import AutoTrackable

optimizers: Final = Registry("optimizer")


@export("keras.optimizers.Optimizer")
class Optimizer(AutoTrackable):
    """An optimizer whose learning rate is the variable `lr`."""

    def __init__(self, learning_rate: Any = 0.01, name: str | None = None, **kwargs: Any) -> None:
        """Takes the rate; `lr`, its older name; `decay`; `clipnorm` or `clipvalue`."""
        self._rate = kwargs.pop("lr", learning_rate)
        self._decay = kwargs.pop("decay", 0.0)
        self.clipnorm, self.clipvalue = kwargs.pop("clipnorm", None), kwargs.pop("clipvalue", None)
        if kwargs:
            raise TypeError(f"Unexpected keyword argument passed to optimizer: {', '.join(kwargs)}")
        self._name = name or type(self).__name__
        self._graph: Any = None

    def _make(self, rate: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no update.")

    def _prepare(self) -> None:
        at_once = runs_at_once()
        graph = outermost(tf.get_default_graph()) if at_once else tf.get_default_graph()
        if self._graph is graph:
            return
        self._graph = graph
        with tf.init_scope() if at_once else contextlib.nullcontext(), tf.name_scope(self._name):
            self.iterations = tf.Variable(0, dtype=tf.int64, trainable=False, name="iterations")
            if callable(self._rate):
                schedule = self._rate
                rate = (lambda: schedule(self.iterations)) if at_once else schedule(self.iterations)
            else:
                self._lr = tf.Variable(float(self._rate), trainable=False, name="learning_rate")
                rate = self._lr if not self._decay else self._decayed if at_once else self._decayed()
            self._inner = self._make(rate)

    def _decayed(self) -> Any:
        return self._lr / (1.0 + self._decay * tf.cast(self.iterations, tf.float32))

    def _children(self) -> dict[str, Any]:
        """What checkpoints of objects save besides the slots, once there is something."""
        if self._graph is None:
            return {}
        own = {"iter": self.iterations} | ({"learning_rate": self._lr} if not callable(self._rate) else {})
        return own | {name: each for (name, _), each in self._inner._non_slot_dict.items()}

    def get_slot_names(self) -> list[str]:
        """The names of the variables that there are beside each trained one."""
        return [] if self._graph is None else list(self._inner.get_slot_names())

    def get_slot(self, var: Any, name: str) -> Any:
        """The variable of this name beside a trained one, or None."""
        return None if self._graph is None else self._inner.get_slot(var, name)

    @property
    def lr(self) -> Any:
        """The variable of the rate."""
        self._prepare()
        return self._lr

    learning_rate = lr

    @property
    def weights(self) -> list[Any]:
        """The variables of the optimizer."""
        self._prepare()
        return [self.iterations, *self._inner.variables()]

    variables = weights

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """The gradients, clipped if that was asked for."""
        return self.clipped(tf.gradients(loss, params))

    def clipped(self, found: list[Any]) -> list[Any]:
        """Gradients, clipped if that was asked for."""
        if self.clipnorm:
            found = [None if each is None else tf.clip_by_norm(each, self.clipnorm) for each in found]
        if self.clipvalue:
            found = [
                None if each is None else tf.clip_by_value(each, -self.clipvalue, self.clipvalue) for each in found
            ]
        return found

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """An operation that updates the variables."""
        self._prepare()
        return self._inner.apply_gradients(list(grads_and_vars), global_step=self.iterations, name=name or self._name)

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Operations of one training step."""
        params = list(params)
        return [self.apply_gradients(zip(self.get_gradients(loss, params), params, strict=True))]

    def minimize(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
        """An operation of one training step; the variables are all trainable ones if none are given."""
        if runs_at_once():
            return self._minimize_at_once(loss, var_list)
        params = tf.trainable_variables() if var_list is None else (var_list() if callable(var_list) else var_list)
        return self.get_updates(loss() if callable(loss) else loss, params)[0]

    def _minimize_at_once(self, loss: Any, var_list: Any) -> Any:
        if not callable(loss):
            raise ValueError("`loss` must be a function without arguments where ops run at once.")
        with tf.GradientTape() as tape:
            value = loss()
        params = var_list() if callable(var_list) else var_list
        params = list(tape.watched_variables() if params is None else params)
        return self.apply_gradients(zip(self.clipped(tape.gradient(value, params)), params, strict=True))

    def get_config(self) -> dict[str, Any]:
        """The arguments that make such an optimizer."""
        own = {key: value for key, value in self.__dict__.items() if not key.startswith("_") and key != "iterations"}
        config = {key: value for key, value in own.items() if value is not None}
        return config | {"learning_rate": self._rate, "decay": self._decay}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        """Makes an optimizer from a result of `get_config`."""
        return cls(**config)


@export("keras.optimizers.SGD")
class SGD(Optimizer):
    """Gradient descent, with momentum."""

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, **kwargs: Any) -> None:
        """Takes the rate and the momentum."""
        super().__init__(learning_rate, **kwargs)
        self.momentum, self.nesterov = momentum, nesterov

    def _make(self, rate: Any) -> Any:
        if self.momentum:
            return tf.train.MomentumOptimizer(rate, self.momentum, use_nesterov=self.nesterov)
        return tf.train.GradientDescentOptimizer(rate)


@export("keras.optimizers.Adam")
class Adam(Optimizer):
    """Adam."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: Any = 1e-7,
                 amsgrad: bool = False, **kwargs: Any) -> None:  # fmt: skip
        """Takes the rate and the factors of both averages."""
        if amsgrad:
            raise NotImplementedError("amsgrad is not computed here: use Adam without it.")
        super().__init__(learning_rate, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, 1e-7 if epsilon is None else epsilon

    def _make(self, rate: Any) -> Any:
        return tf.train.AdamOptimizer(rate, self.beta_1, self.beta_2, self.epsilon)


@export("keras.optimizers.Adamax")
class Adamax(Adam):
    """Adam with a maximum in place of the average of squares."""

    def _make(self, rate: Any) -> Any:
        return tf.contrib.opt.AdaMaxOptimizer(rate, self.beta_1, self.beta_2, self.epsilon)


@export("keras.optimizers.Adagrad")
class Adagrad(Optimizer):
    """Adagrad."""

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: Any = 1e-7,
                 **kwargs: Any) -> None:  # fmt: skip
        """Takes the rate and where the sums of squares start."""
        super().__init__(learning_rate, **kwargs)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon

    def _make(self, rate: Any) -> Any:
        return _Adagrad(rate, self.initial_accumulator_value, self.epsilon)


@export("keras.optimizers.Adadelta")
class Adadelta(Optimizer):
    """Adadelta."""

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: Any = 1e-7, **kwargs: Any) -> None:
        """Takes the rate and the factor of the averages."""
        super().__init__(learning_rate, **kwargs)
        self.rho, self.epsilon = rho, 1e-7 if epsilon is None else epsilon

    def _make(self, rate: Any) -> Any:
        return tf.train.AdadeltaOptimizer(rate, self.rho, self.epsilon)


@export("keras.optimizers.Ftrl")
class Ftrl(Optimizer):
    """FTRL."""

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, **kwargs: Any) -> None:  # fmt: skip
        """Takes the arguments of `tf.train.FtrlOptimizer`."""
        super().__init__(learning_rate, **kwargs)
        self.learning_rate_power, self.initial_accumulator_value = learning_rate_power, initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def _make(self, rate: Any) -> Any:
        return tf.train.FtrlOptimizer(
            rate, self.learning_rate_power, self.initial_accumulator_value, self.l1_regularization_strength,
            self.l2_regularization_strength,
        )  # fmt: skip


class _Adagrad(tf.train.AdagradOptimizer):
    """Keras's rule: epsilon is added to the root, so that the sums of squares may start at zero."""

    def __init__(self, rate: Any, first: float, epsilon: float) -> None:
        super().__init__(rate, first or 1.0)
        self._initial_accumulator_value, self._epsilon = first, epsilon

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        total = self.get_slot(handle, "accumulator")
        sums = total.assign_add(tf.square(grad))
        return handle.assign_sub(self._step_size(grad) * grad / (tf.sqrt(sums) + self._epsilon), read_value=False)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        sums = self._resource_scatter_add(self.get_slot(handle, "accumulator"), indices, tf.square(grad))
        step = self._step_size(grad) * grad / (tf.sqrt(tf.gather(sums, indices)) + self._epsilon)
        return self._resource_scatter_add(handle, indices, -step)

    def _step_size(self, grad: Any) -> Any:
        rate = self._learning_rate
        return tf.cast(rate() if callable(rate) else rate, grad.dtype)


class _RMSProp(tf.train.Optimizer):
    """Keras's rule: the average of squares starts at zero, and epsilon is added to its root."""

    def __init__(self, rate: Any, rho: float, epsilon: float) -> None:
        super().__init__(False, "RMSprop")
        self._rate, self._rho, self._epsilon = rate, rho, epsilon

    def _create_slots(self, var_list: Any) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "rms", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        rms = self.get_slot(var, "rms")
        average = rms.assign(self._rho * rms + (1.0 - self._rho) * tf.square(grad))
        return var.assign_sub(self._step_size(grad) * grad / (tf.sqrt(average) + self._epsilon), read_value=False)

    def _step_size(self, grad: Any) -> Any:
        return tf.cast(self._rate() if callable(self._rate) else self._rate, grad.dtype)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply_dense(grad, handle)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        rms = self.get_slot(handle, "rms")
        average = rms.assign(self._rho * rms)
        with tf.control_dependencies([average]):
            added = self._resource_scatter_add(rms, indices, (1.0 - self._rho) * tf.square(grad))
        step = self._step_size(grad) * grad / (tf.sqrt(tf.gather(added, indices)) + self._epsilon)
        return self._resource_scatter_add(handle, indices, -step)


@export("keras.optimizers.RMSprop")
class RMSprop(Optimizer):
    """RMSProp."""

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: Any = 1e-7,
                 centered: bool = False, **kwargs: Any) -> None:  # fmt: skip
        """Takes the rate and the factor of the average of squares."""
        if momentum or centered:
            raise NotImplementedError("Momentum and centering: use tf.train.RMSPropOptimizer.")
        super().__init__(learning_rate, **kwargs)
        self.rho, self.epsilon = rho, 1e-7 if epsilon is None else epsilon

    def _make(self, rate: Any) -> Any:
        return _RMSProp(rate, self.rho, self.epsilon)


class _Given(Optimizer):
    """An optimizer of `tf.train`, with Keras's methods."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(0.0)
        self._given = optimizer

    def _make(self, rate: Any) -> Any:
        return self._given


for _class in (SGD, Adam, Adamax, Adagrad, Adadelta, Ftrl, RMSprop):
    optimizers.add(_class.__name__, _class)
    optimizers.add(_class.__name__.lower(), _class)
export_registry("keras.optimizers", optimizers)


def optimizer_of(identifier: Any) -> Optimizer:
    """The optimizer of a name, a config, one of `tf.train`, or a Keras optimizer itself."""
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, tf.train.Optimizer):
        return _Given(identifier)
    if isinstance(identifier, str) and identifier.lower() == "adagrad":
        return Adagrad(initial_accumulator_value=0.0)  # The name alone, as in TensorFlow 1.15.
    found = optimizers.get(identifier)
    if not isinstance(found, Optimizer):
        raise ValueError(f"Could not interpret optimizer identifier: {identifier!r}")
    return found
