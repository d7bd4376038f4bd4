"""Exports of Estimators: SavedModels in folders named by the time of the export."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from thalweg.estimator.export_outputs import EvalOutput, TrainOutput
from thalweg.estimator.model_spec import EXPORT_TAGS, ModeKeys
from thalweg.estimator.public_names import tf
from thalweg.estimator.serving_inputs import SupervisedInputReceiver, signatures

_MOST_ATTEMPTS = 10


class Build(NamedTuple):
    """How to build the graph of a model: the methods of its Estimator."""

    enter_graph: Any
    create_global_step: Any
    call_model_fn: Any


def timestamped_dir(base: str) -> str:
    """A folder for a new export, which does not exist yet: the seconds of the time now."""
    for _ in range(_MOST_ATTEMPTS):
        path = os.path.join(base, str(int(time.time())))
        if not tf.gfile.Exists(path):
            return path
        time.sleep(1)
    raise RuntimeError(f"Failed to obtain a unique export directory name in {base} in {_MOST_ATTEMPTS} attempts.")


def export(
    build: Build,
    base: str,
    receivers: Mapping[str, Any],
    assets_extra: Any,
    as_text: bool,
    checkpoint: Any,
    config: Any,
) -> bytes:
    """Writes a SavedModel with a graph for each mode.

    Raises:
        ValueError: If no mode is given, or one is unknown.
    """
    order = [mode for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT) if receivers.get(mode)]
    unknown = sorted(set(receivers) - set(EXPORT_TAGS))
    if unknown or not order:
        raise ValueError(f"receivers must be given for some of {sorted(EXPORT_TAGS)}, got {sorted(receivers)}.")
    target = timestamped_dir(base)
    temporary = os.path.join(base, f"temp-{os.path.basename(target)}")
    try:
        builder = tf.saved_model.Builder(temporary)
        for number, mode in enumerate(order):
            _add_graph(build, builder, mode, receivers[mode], checkpoint, config, saves_variables=number == 0)
        builder.save(as_text)
        for name, source in dict(assets_extra or {}).items():
            path = os.path.join(temporary, "assets.extra", name)
            tf.gfile.MakeDirs(os.path.dirname(path))
            tf.gfile.Copy(source, path)
        tf.gfile.Rename(temporary, target)
    except BaseException:
        with suppress(tf.errors.OpError):
            tf.gfile.DeleteRecursively(temporary)
        raise
    return os.fsencode(target)


def _add_graph(
    build: Build, builder: Any, mode: str, receiver_fn: Any, checkpoint: Any, config: Any, saves_variables: bool
) -> None:
    with ExitStack() as stack:
        graph = build.enter_graph(stack)
        build.create_global_step(graph)
        receiver = receiver_fn()
        labels = receiver.labels if isinstance(receiver, SupervisedInputReceiver) else None
        spec = build.call_model_fn(receiver.features, labels, mode)
        outputs = spec.export_outputs
        if mode != ModeKeys.PREDICT:
            kind = TrainOutput if mode == ModeKeys.TRAIN else EvalOutput
            outputs = {mode: kind(spec.loss, spec.predictions or None, spec.eval_metric_ops)}
        found = signatures(receiver, outputs, mode == ModeKeys.PREDICT)
        local_init = spec.scaffold.local_init_op or tf.train.Scaffold.default_local_init_op()
        options: dict[str, Any] = {
            "assets_collection": tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            "main_op": local_init,
            "strip_default_attrs": True,
        }
        if mode == ModeKeys.TRAIN:
            options["train_op"] = spec.train_op
        saver = spec.scaffold.saver or tf.train.Saver(sharded=True, allow_empty=True)
        with tf.Session(config=config) as session:
            saver.restore(session, checkpoint)
            if saves_variables:
                builder.add_meta_graph_and_variables(session, EXPORT_TAGS[mode], found, **options)
            else:
                builder.add_meta_graph(EXPORT_TAGS[mode], found, **options)
