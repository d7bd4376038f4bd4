"""Estimator: trains, evaluates, predicts and exports the model that a `model_fn` describes."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from thalweg.estimator import evaluation, export_models
from thalweg.estimator.model_spec import EstimatorSpec, ModeKeys
from thalweg.estimator.public_names import tf
from thalweg.estimator.run_config import RunConfig, default_session_config
from thalweg.estimator.warm_start import settings_of
from thalweg.graph.definitions.op_registry import export


@export("estimator.Estimator")
class Estimator:
    """Trains and uses a model.

    Args:
        model_fn: A function of `features` and, as far as it names them, `labels`, `mode`, `params` and `config`; it
            returns an EstimatorSpec.
        model_dir: The folder for checkpoints and summaries; that of `config`, or a temporary one, if None.
        config: A RunConfig.
        params: Passed on to `model_fn`.
        warm_start_from: A checkpoint or SavedModel to begin with, or WarmStartSettings.

    Example:
        >>> def model_fn(features, labels, mode):
        ...     y = tf.layers.dense(features["x"], 1)
        ...     if mode == tf.estimator.ModeKeys.PREDICT:
        ...         return tf.estimator.EstimatorSpec(mode, predictions={"y": y})
        ...     loss = tf.losses.mean_squared_error(labels, y)
        ...     train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        ...     return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        >>> x, y = {"x": np.ones([4, 2], np.float32)}, np.ones([4, 1], np.float32)
        >>> model = tf.estimator.Estimator(model_fn)
        >>> model = model.train(tf.estimator.inputs.numpy_input_fn(x, y, 4, None, True), steps=3)
        >>> int(model.get_variable_value("global_step"))
        3
    """

    def __init__(
        self,
        model_fn: Any,
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        """Checks the arguments and decides on the folder."""
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(f"config must be an instance of `RunConfig`, received {config!r}.")
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        self._config = copy.copy(config) if config is not None else RunConfig()
        self._set_model_dir(model_dir)
        self._session_config = self._config.session_config or default_session_config()
        if self._config.session_config is None:
            self._config.session_config = self._session_config
        self._model_fn = model_fn
        self._arguments = _argument_names(model_fn)
        if "features" not in self._arguments:
            raise ValueError(f"model_fn ({model_fn}) must include features argument.")
        if params is not None and "params" not in self._arguments:
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed."
            )
        unknown = self._arguments - {"features", "labels", "mode", "params", "config", "self"}
        if unknown:
            raise ValueError(f"model_fn ({model_fn}) has following not expected args: {sorted(unknown)}")
        self._params = copy.deepcopy(params or {})
        self._warm_start = settings_of(warm_start_from)

    def _set_model_dir(self, model_dir: Any) -> None:
        given = os.fspath(model_dir) if model_dir is not None else None
        if given is not None and self._config.model_dir not in (None, given):
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
                f"'{given}', in `RunConfig`: '{self._config.model_dir}'."
            )
        folder = given or self._config.model_dir
        if folder is None:
            folder = tempfile.mkdtemp()
            tf.logging.warning("Using temporary folder as model directory: %s", folder)
        self._config = self._config.replace(model_dir=folder)
        self._model_dir = folder

    @property
    def model_dir(self) -> str:
        """The folder with the checkpoints."""
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        """A copy of the settings."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the parameters of the model."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Any:
        """The model function, of features, labels, mode and config."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    def _reader(self) -> Any:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")
        return tf.train.load_checkpoint(path)

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint."""
        return self._reader().get_tensor(name)

    def get_variable_names(self) -> list[str]:
        """The names of all variables in the latest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self._model_dir)] if self._reader() else []

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, or None."""
        found: str | None = tf.train.latest_checkpoint(self._model_dir)
        return found

    # Building the graph.

    def _call_input_fn(self, input_fn: Any, mode: str) -> Any:
        names = _argument_names(input_fn)
        kwargs: dict[str, Any] = {}
        if "mode" in names:
            kwargs["mode"] = mode
        if "params" in names:
            kwargs["params"] = self.params
        if "config" in names:
            kwargs["config"] = self.config
        with tf.device("/cpu:0"):
            return input_fn(**kwargs)

    def _features_and_labels(self, input_fn: Any, mode: str) -> tuple[Any, Any]:
        given = self._call_input_fn(input_fn, mode)
        if isinstance(given, tf.data.Dataset) or hasattr(given, "make_initializable_iterator"):
            iterator = tf.data.make_initializable_iterator(given)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            given = iterator.get_next()
        if isinstance(given, (list, tuple)) and not hasattr(given, "_fields"):
            if len(given) != 2:
                raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(given)} parts.")
            return given[0], given[1]
        return given, None

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any = None) -> EstimatorSpec:
        kwargs: dict[str, Any] = {}
        if "labels" in self._arguments:
            kwargs["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        if "mode" in self._arguments:
            kwargs["mode"] = mode
        if "params" in self._arguments:
            kwargs["params"] = self.params
        if "config" in self._arguments:
            kwargs["config"] = config if config is not None else self.config
        spec = self._as_spec(self._model_fn(features=features, **kwargs))
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"model_fn should return an EstimatorSpec, got {spec!r}.")
        return spec

    def _as_spec(self, returned: Any) -> Any:
        return returned  # Subclasses take other classes, too.

    def _create_global_step(self, graph: Any) -> Any:
        return tf.train.create_global_step(graph)

    def _device_fn(self) -> Any:
        config = self._config
        if config.device_fn is not None:
            return config.device_fn
        if not config.num_ps_replicas:
            return None
        return tf.train.replica_device_setter(
            ps_tasks=config.num_ps_replicas,
            worker_device=f"/job:{config.task_type}/task:{config.task_id}",
            cluster=config.cluster_spec,
        )

    def _enter_graph(self, stack: ExitStack, with_devices: bool = False) -> Any:
        graph = tf.Graph()
        stack.enter_context(graph.as_default())
        if with_devices:
            stack.enter_context(tf.device(self._device_fn()))
        if self._config.tf_random_seed is not None:
            tf.set_random_seed(self._config.tf_random_seed)
        return graph

    # Training.

    def train(
        self,
        input_fn: Any,
        hooks: Any = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Trains the model, from its latest checkpoint if there is one.

        Args:
            input_fn: Returns a Dataset, or tensors: features and labels.
            hooks: SessionRunHooks.
            steps: So many steps more; without it and `max_steps` until the input ends.
            max_steps: Until the global step has this value.
            saving_listeners: CheckpointSaverListeners.

        Returns:
            This estimator.

        Raises:
            ValueError: If both `steps` and `max_steps` are given, or one of them is not positive.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, value in (("steps", steps), ("max_steps", max_steps)):
            if value is not None and value <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {value}.")
        if max_steps is not None:
            done = self._trained_steps()
            if max_steps <= done:
                tf.logging.info("Skipping training since max_steps has already saved.")
                return self
        all_hooks = list(hooks or ())
        if steps is not None or max_steps is not None:
            all_hooks.append(tf.train.StopAtStepHook(steps, max_steps))
        with ExitStack() as stack:
            graph = self._enter_graph(stack, with_devices=True)
            step = self._create_global_step(graph)
            features, labels = self._features_and_labels(input_fn, ModeKeys.TRAIN)
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN)
            loss = self._run_training(graph, step, spec, all_hooks, list(saving_listeners or ()))
        tf.logging.info("Loss for final step: %s.", loss)
        return self

    def _trained_steps(self) -> int:
        path = self.latest_checkpoint()
        if path is None:
            return 0
        reader = tf.train.load_checkpoint(path)
        return int(reader.get_tensor("global_step")) if reader.has_tensor("global_step") else 0

    def _run_training(self, graph: Any, step: Any, spec: EstimatorSpec, hooks: list[Any], listeners: list[Any]) -> Any:
        config = self._config
        if self._warm_start is not None and self.latest_checkpoint() is None:
            tf.train.warm_start(*self._warm_start)
        if not any(op.name == "loss" for op in graph.get_operations() if op.type == "ScalarSummary"):
            tf.summary.scalar("loss", spec.loss)
        tf.add_to_collection(tf.GraphKeys.LOSSES, spec.loss)
        if not (spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)):
            saver = tf.train.Saver(
                sharded=True, max_to_keep=config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours, defer_build=True,
                save_relative_paths=True,
            )  # fmt: skip
            tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        worker_hooks = [*hooks, tf.train.NanTensorHook(spec.loss)]
        if config.log_step_count_steps is not None:
            logged = {"loss": spec.loss, "step": step}
            worker_hooks.append(tf.train.LoggingTensorHook(logged, every_n_iter=config.log_step_count_steps))
        worker_hooks.extend(spec.training_hooks)
        chief_hooks = list(spec.training_chief_hooks)
        if config.save_checkpoints_secs or config.save_checkpoints_steps:
            has_own = any(isinstance(h, tf.train.CheckpointSaverHook) for h in (*worker_hooks, *chief_hooks))
            if not has_own:
                chief_hooks.append(
                    tf.train.CheckpointSaverHook(
                        self._model_dir,
                        save_secs=config.save_checkpoints_secs,
                        save_steps=config.save_checkpoints_steps,
                        scaffold=spec.scaffold,
                        listeners=listeners,
                    )
                )
            elif listeners:
                raise ValueError("saving_listeners need the estimator's own CheckpointSaverHook.")
        elif listeners:
            raise ValueError("saving_listeners need checkpoints, but RunConfig asks for none.")
        with tf.train.MonitoredTrainingSession(
            master=config.master, is_chief=config.is_chief, checkpoint_dir=self._model_dir, scaffold=spec.scaffold,
            hooks=worker_hooks, chief_only_hooks=chief_hooks, save_checkpoint_secs=0,
            save_summaries_steps=config.save_summary_steps, config=self._session_config,
            log_step_count_steps=config.log_step_count_steps, max_wait_secs=config.session_creation_timeout_secs,
        ) as session:  # fmt: skip
            loss = None
            any_step = False
            while not session.should_stop():
                _, loss = session.run([spec.train_op, spec.loss])
                any_step = True
        tf.summary.FileWriterCache.clear()
        if not any_step:
            tf.logging.warning("Training with estimator made no steps. Perhaps input is empty or misspecified.")
        return loss

    # Evaluation and prediction.

    def evaluate(
        self,
        input_fn: Any,
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: Any = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Computes the metrics of the model for some input.

        Args:
            input_fn: As for `train`.
            steps: So many batches; without it until the input ends.
            hooks: SessionRunHooks.
            checkpoint_path: The checkpoint; the latest one if None.
            name: Distinguishes evaluations with different input: their summaries go to `eval_<name>`.

        Returns:
            The metrics by name, with 'loss' (the mean over the batches) and 'global_step'.

        Raises:
            ValueError: If there is no checkpoint, or the model has no loss.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        path = checkpoint_path or self.latest_checkpoint()
        if path is None and self._warm_start is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")
        with ExitStack() as stack:
            graph = self._enter_graph(stack)
            self._create_global_step(graph)
            features, labels = self._features_and_labels(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL)
            if path is None and self._warm_start is not None:
                tf.train.warm_start(*self._warm_start)
            return evaluation.evaluate(
                spec, path, steps, list(hooks or ()), self._session_config, self.eval_dir(name),
                self._config.evaluation_master,
            )  # fmt: skip

    def eval_dir(self, name: str | None = None) -> str:
        """The folder with the summaries of an evaluation."""
        return os.path.join(self._model_dir, "eval" if not name else f"eval_{name}")

    def predict(
        self,
        input_fn: Any,
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: Any = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields the predictions for some input, example by example.

        Args:
            input_fn: Returns a Dataset or features; labels are not used.
            predict_keys: The names of the predictions to compute; all if None.
            hooks: SessionRunHooks.
            checkpoint_path: The checkpoint; the latest one if None.
            yield_single_examples: Whether to take batches apart.

        Raises:
            ValueError: If there is no checkpoint, a name is unknown, or batches cannot be taken apart.
        """
        path = checkpoint_path or self.latest_checkpoint()
        if path is None and self._warm_start is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")
        with ExitStack() as stack:
            graph = self._enter_graph(stack)
            self._create_global_step(graph)
            features, _ = self._features_and_labels(input_fn, ModeKeys.PREDICT)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT)
            if path is None and self._warm_start is not None:
                tf.train.warm_start(*self._warm_start)
            predictions = _chosen(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(
                scaffold=spec.scaffold, master=self._config.master if not self._config.cluster_spec.jobs else "",
                config=self._session_config, checkpoint_filename_with_path=path,
            )  # fmt: skip
            with tf.train.MonitoredSession(creator, [*(hooks or ()), *spec.prediction_hooks]) as session:
                while not session.should_stop():
                    values = session.run(predictions)
                    if not yield_single_examples:
                        yield values
                    elif not isinstance(values, dict):
                        yield from values
                    else:
                        for i in range(_batch_size(values)):
                            yield {key: value[i] for key, value in values.items()}

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: Any = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes a SavedModel into a new folder, named by the time, of `export_dir_base`.

        Args:
            export_dir_base: The folder of all exports.
            serving_input_receiver_fn: Returns a ServingInputReceiver.
            assets_extra: Files to copy into the folder 'assets.extra': from the names there to their paths.
            as_text: Whether to write the text form.
            checkpoint_path: The checkpoint; the latest one if None.
            experimental_mode: The mode of the graph.

        Returns:
            The path of the new folder.

        Raises:
            ValueError: If there is no checkpoint.
        """
        receivers = {experimental_mode: serving_input_receiver_fn}
        return self.experimental_export_all_saved_models(
            export_dir_base, receivers, assets_extra, as_text, checkpoint_path
        )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: Any = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The older name of `export_saved_model`."""
        return self.export_saved_model(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Any],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: Any = None,
    ) -> bytes:
        """Writes a SavedModel with a graph for each mode of the map; see `export_saved_model`."""
        path = checkpoint_path or self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Couldn't find trained model at {self._model_dir}.")
        build = export_models.Build(self._enter_graph, self._create_global_step, self._call_model_fn)
        return export_models.export(
            build, os.fspath(export_dir_base), input_receiver_fn_map, assets_extra, as_text, path, self._session_config
        )


def _argument_names(function: Any) -> set[str]:
    """The names of the arguments that a function takes by name."""
    bound = function if isinstance(function, functools.partial) else None
    target = bound.func if bound is not None else function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return set()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if bound is not None:
        names = [name for name in names[len(bound.args) :] if name not in bound.keywords]
    return set(names)


def _chosen(predictions: Any, keys: Any) -> Any:
    if not keys:
        return predictions
    names = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, dict):
        raise ValueError(f"predict_keys argument is not valid in case of non-dict predictions: {predictions!r}.")
    found = {key: value for key, value in predictions.items() if key in names}
    if not found:
        raise ValueError(f"Expected to run at least one output from {sorted(predictions)}, provided {names}.")
    return found


def _batch_size(values: dict[str, Any]) -> int:
    sizes = {key: value.shape[0] if getattr(value, "ndim", 0) else None for key, value in values.items()}
    if len(set(sizes.values())) != 1 or None in sizes.values():
        raise ValueError(
            f"Batch length of predictions should be same, got {sizes}; or use yield_single_examples=False."
        )
    return int(next(iter(sizes.values())) or 0)
