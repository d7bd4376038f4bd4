"""The type names of messages inside of google.protobuf.Any: TensorFlow's in files, the tensorboard package's in memory.

`Any.Unpack` compares type names, so that a program could not unpack TensorFlow's entries into the classes it gets
here; and TensorFlow could not unpack ours.
"""

from __future__ import annotations

from typing import Any, Final

_HOST: Final = "type.googleapis.com/"
_IN_FILES: Final = f"{_HOST}tensorflow."
_IN_MEMORY: Final = f"{_HOST}tensorboard."


def name_for_memory(saved_model: Any) -> None:
    """Renames the types of packed messages of a SavedModel that was read, so that they can be unpacked."""
    _rename(saved_model, _IN_FILES, _IN_MEMORY)


def name_for_files(saved_model: Any) -> None:
    """Renames the types of packed messages of a SavedModel to be written, to those that TensorFlow unpacks."""
    _rename(saved_model, _IN_MEMORY, _IN_FILES)


def text_for_memory(text: str) -> str:
    """The text form, which spells packed messages out, with names that can be parsed here."""
    return text.replace(f"[{_IN_FILES}", f"[{_IN_MEMORY}")


def text_for_files(text: str) -> str:
    """The text form with names that TensorFlow can parse."""
    return text.replace(f"[{_IN_MEMORY}", f"[{_IN_FILES}")


def _rename(saved_model: Any, old: str, new: str) -> None:
    for meta_graph in saved_model.meta_graphs:
        for collection in meta_graph.collection_def.values():
            for item in collection.any_list.value if collection.HasField("any_list") else ():
                if item.type_url.startswith(old):
                    item.type_url = new + item.type_url[len(old) :]
