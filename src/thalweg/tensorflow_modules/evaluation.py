"""Names of `tensorflow.python.training.evaluation` that are not public."""

from thalweg.contrib.training.evaluation import StopAfterNEvalsHook as _StopAfterNEvalsHook
from thalweg.contrib.training.evaluation import evaluate_once as _evaluate_once
from thalweg.contrib.training.evaluation import get_or_create_eval_step as _get_or_create_eval_step

__all__ = ["_StopAfterNEvalsHook", "_evaluate_once", "_get_or_create_eval_step"]
