"""The names that SavedModels are made of: files, collections, tags, and keys of signatures."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.definitions.op_registry import export_value

INIT_OP_SIGNATURE_KEY: Final = "__saved_model_init_op"
TRAIN_OP_KEY: Final = "saved_model_train_op"
ASSETS_DIRECTORY: Final = "assets"
ASSETS_KEY: Final = "saved_model_assets"
LEGACY_INIT_OP_KEY: Final = "legacy_init_op"
MAIN_OP_KEY: Final = "saved_model_main_op"
SAVED_MODEL_FILENAME_PB: Final = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT: Final = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION: Final = 1
VARIABLES_DIRECTORY: Final = "variables"
VARIABLES_FILENAME: Final = "variables"
DEFAULT_SERVING_SIGNATURE_DEF_KEY: Final = "serving_default"
CLASSIFY_METHOD_NAME: Final = "tensorflow/serving/classify"
PREDICT_METHOD_NAME: Final = "tensorflow/serving/predict"
REGRESS_METHOD_NAME: Final = "tensorflow/serving/regress"

_SPACES: Final[dict[str, dict[str, Any]]] = {
    "constants": {
        "ASSETS_DIRECTORY": ASSETS_DIRECTORY,
        "ASSETS_KEY": ASSETS_KEY,
        "LEGACY_INIT_OP_KEY": LEGACY_INIT_OP_KEY,
        "MAIN_OP_KEY": MAIN_OP_KEY,
        "SAVED_MODEL_FILENAME_PB": SAVED_MODEL_FILENAME_PB,
        "SAVED_MODEL_FILENAME_PBTXT": SAVED_MODEL_FILENAME_PBTXT,
        "SAVED_MODEL_SCHEMA_VERSION": SAVED_MODEL_SCHEMA_VERSION,
        "VARIABLES_DIRECTORY": VARIABLES_DIRECTORY,
        "VARIABLES_FILENAME": VARIABLES_FILENAME,
    },
    "signature_constants": {
        "DEFAULT_SERVING_SIGNATURE_DEF_KEY": DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        "CLASSIFY_INPUTS": "inputs",
        "CLASSIFY_METHOD_NAME": CLASSIFY_METHOD_NAME,
        "CLASSIFY_OUTPUT_CLASSES": "classes",
        "CLASSIFY_OUTPUT_SCORES": "scores",
        "PREDICT_INPUTS": "inputs",
        "PREDICT_METHOD_NAME": PREDICT_METHOD_NAME,
        "PREDICT_OUTPUTS": "outputs",
        "REGRESS_INPUTS": "inputs",
        "REGRESS_METHOD_NAME": REGRESS_METHOD_NAME,
        "REGRESS_OUTPUTS": "outputs",
    },
    "tag_constants": {"GPU": "gpu", "SERVING": "serve", "TPU": "tpu", "TRAINING": "train"},
}
for _space, _names in _SPACES.items():
    for _name, _value in _names.items():
        export_value(_value, f"saved_model.{_space}.{_name}", f"saved_model.{_name}")
