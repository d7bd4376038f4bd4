"""Names of `tensorflow.python.client.session` that are not public."""

from __future__ import annotations

from typing import Any


def register_session_run_conversion_functions(
    tensor_type: type, fetch_function: Any, feed_function: Any = None, feed_function_for_partial_run: Any = None
) -> None:
    """Teaches sessions to fetch and feed objects of a class of the program's own.

    Args:
        tensor_type: The class.
        fetch_function: From an object to the list of tensors to fetch and a function that makes the result of their
            values.
        feed_function: From an object and the value fed for it to pairs of a tensor and its value; the tensors are those
            that `fetch_function` names.
        feed_function_for_partial_run: Not used: the tensors that can be fed are those that can be fetched.

    Raises:
        ValueError: If the class can be fetched already.
    """
    if hasattr(tensor_type, "_session_parts"):
        raise ValueError(f"{tensor_type.__name__} has already been registered")
    own: Any = tensor_type  # The two methods are how sessions take apart what is no tensor.
    own._session_parts = lambda self: fetch_function(self)
    if feed_function is not None:
        own._session_values = lambda self, value: [part for _, part in feed_function(self, value)]
