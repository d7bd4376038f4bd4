"""predictor.from_saved_model: a function of a dict of arrays, which runs a SavedModel in a session of its own."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.predictor.Predictor")
class Predictor:
    """A loaded model: call it with a dict of inputs by name."""

    def __init__(self, session: Any, feed_tensors: dict[str, Any], fetch_tensors: dict[str, Any]) -> None:
        """Takes the session, and the tensors by name."""
        self._session, self._feeds, self._fetches = session, feed_tensors, fetch_tensors

    @property
    def graph(self) -> Any:
        """The graph of the model."""
        return self._session.graph

    @property
    def session(self) -> Any:
        """The session."""
        return self._session

    @property
    def feed_tensors(self) -> dict[str, Any]:
        """The inputs by name."""
        return self._feeds

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        """The outputs by name."""
        return self._fetches

    def __call__(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name.

        Raises:
            ValueError: If an input is unknown.
        """
        unknown = sorted(set(input_dict) - set(self._feeds))
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}\nexpected: {sorted(self._feeds)}")
        feed = {self._feeds[key]: value for key, value in input_dict.items()}
        result: dict[str, Any] = self._session.run(self._fetches, feed)
        return result


@export("contrib.predictor.from_saved_model")
def from_saved_model(
    export_dir: str, signature_def_key: str | None = None, signature_def: Any = None, input_names: Any = None,
    output_names: Any = None, tags: Any = None, graph: Any = None, config: Any = None,
) -> Predictor:  # fmt: skip
    """Loads a SavedModel as a function.

    Args:
        export_dir: The folder of the SavedModel.
        signature_def_key: The signature; the default one if None.
        signature_def: A SignatureDef instead.
        input_names: Tensors of the inputs by name instead of a signature; needs `output_names`.
        output_names: Tensors of the outputs by name.
        tags: The tags of the MetaGraph, with commas between; 'serve' if None.
        graph: The graph to load into; a new one if None.
        config: A ConfigProto for the session.

    Raises:
        ValueError: If there is no such signature, or more than one way to name the tensors.
    """
    if sum(given is not None for given in (signature_def_key, signature_def, input_names)) > 1:
        raise ValueError("You must specify at most one of signature_def_key OR signature_def OR input_names")
    if (input_names is None) != (output_names is None):
        raise ValueError("input_names and output_names must both be specified")
    graph = graph or tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config)
        meta_graph = tf.saved_model.loader.load(session, (tags or "serve").split(","), export_dir)
    if input_names is None:
        key = signature_def_key or tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if signature_def is None and key not in meta_graph.signature_def:
            raise ValueError(
                f"Got signature_def_key {key!r}. Available signatures are {sorted(meta_graph.signature_def)}."
            )
        found = signature_def or meta_graph.signature_def[key]
        input_names = {name: info.name for name, info in found.inputs.items()}
        output_names = {name: info.name for name, info in found.outputs.items()}
    return Predictor(
        session, {key: graph.get_tensor_by_name(name) for key, name in input_names.items()},
        {key: graph.get_tensor_by_name(name) for key, name in output_names.items()},
    )  # fmt: skip
