"""Decoders of tf.Example: TFExampleDecoder and the handlers of items."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SPACE = "contrib.slim.tfexample_decoder"


@export("contrib.slim.data_decoder.DataDecoder")
class DataDecoder:
    """Makes tensors of a record."""

    def decode(self, data: Any, items: Any) -> list[Any]:
        """The tensors of items."""
        raise NotImplementedError

    def list_items(self) -> list[str]:
        """The items that it knows."""
        raise NotImplementedError


@export(f"{_SPACE}.ItemHandler")
class ItemHandler:
    """Makes one tensor of features with given keys."""

    def __init__(self, keys: Any) -> None:
        """Takes the keys."""
        self._keys = list(keys) if isinstance(keys, (tuple, list)) else [keys]

    @property
    def keys(self) -> list[str]:
        """The keys of the features."""
        return self._keys

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The tensor of the item."""
        raise NotImplementedError


@export(f"{_SPACE}.ItemHandlerCallback")
class ItemHandlerCallback(ItemHandler):
    """An item that a function makes of features."""

    def __init__(self, keys: Any, func: Any) -> None:
        """Takes the keys and the function of a dict of tensors."""
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """Calls the function."""
        return self._func(keys_to_tensors)


@export(f"{_SPACE}.Tensor")
class Tensor(ItemHandler):
    """A feature as it is, reshaped if asked for."""

    def __init__(self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0) -> None:
        """Takes the key, keys of the shape or the shape, and what sparse features have where nothing is.

        Raises:
            ValueError: If both kinds of shape are given.
        """
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else shape_keys
        self._tensor_key, self._shape, self._default = tensor_key, shape, default_value
        super().__init__([tensor_key, *(self._shape_keys or [])])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The feature."""
        tensor, shape = keys_to_tensors[self._tensor_key], self._shape
        if self._shape_keys:
            sizes = [keys_to_tensors[key] for key in self._shape_keys]
            dense = [tf.sparse_tensor_to_dense(s) if isinstance(s, tf.SparseTensor) else s for s in sizes]
            shape = (
                tf.reshape(dense[0], [-1]) if len(dense) == 1 else tf.concat([tf.reshape(d, [-1]) for d in dense], 0)
            )
            shape = tf.cast(shape, tf.int32)
        if isinstance(tensor, tf.SparseTensor):
            if shape is not None:
                tensor = tf.sparse_reshape(tensor, shape)
            return tf.sparse_tensor_to_dense(tensor, self._default)
        return tensor if shape is None else tf.reshape(tensor, shape)


@export(f"{_SPACE}.SparseTensor")
class SparseTensor(ItemHandler):
    """A sparse feature, of indices and values."""

    def __init__(
        self, indices_key: str | None = None, values_key: str | None = None, shape_key: str | None = None,
        shape: Any = None, densify: bool = False, default_value: Any = 0,
    ) -> None:  # fmt: skip
        """Takes the keys, the shape, and whether the result is dense."""
        self._indices_key, self._values_key = indices_key or "indices", values_key or "values"
        self._shape_key, self._shape, self._densify, self._default = shape_key, shape, densify, default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The sparse tensor."""
        indices, values = keys_to_tensors[self._indices_key], keys_to_tensors[self._values_key]
        if self._shape_key:
            shape = keys_to_tensors[self._shape_key]
            shape = shape.values if isinstance(shape, tf.SparseTensor) else shape
        else:
            shape = indices.dense_shape if self._shape is None else self._shape
        columns = tf.transpose(tf.reshape(tf.cast(indices.values, tf.int64), [1, -1]))
        new = tf.SparseTensor(columns, values.values, tf.cast(shape, tf.int64))
        return tf.sparse_tensor_to_dense(new, self._default) if self._densify else new


@export(f"{_SPACE}.BoundingBox")
class BoundingBox(ItemHandler):
    """Boxes [n, 4] of four features."""

    def __init__(self, keys: Any = None, prefix: str = "") -> None:
        """Takes the names of the sides (ymin, xmin, ymax, xmax), and what stands before them."""
        sides = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(sides) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(sides)}")
        super().__init__([prefix + side for side in sides])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The boxes."""
        sides = []
        for key in self._keys:
            side = keys_to_tensors[key]
            side = side.values if isinstance(side, tf.SparseTensor) else side
            sides.append(tf.expand_dims(tf.reshape(side, [-1]), 0))
        return tf.transpose(tf.concat(sides, 0))


@export(f"{_SPACE}.Image")
class Image(ItemHandler):
    """A picture, of its encoded bytes."""

    def __init__(
        self, image_key: str | None = None, format_key: str | None = None, shape: Any = None, channels: int = 3,
        dtype: Any = tf.uint8, repeated: bool = False, dct_method: str = "",
    ) -> None:  # fmt: skip
        """Takes the keys of bytes and format, the shape, the channels and the type."""
        self._image_key, self._format_key = image_key or "image/encoded", format_key or "image/format"
        self._shape, self._channels, self._dtype, self._repeated = shape, channels, dtype, repeated
        super().__init__([self._image_key, self._format_key])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The picture."""
        data, kind = keys_to_tensors[self._image_key], keys_to_tensors[self._format_key]
        if self._repeated:
            return tf.map_fn(lambda each: self._decode(each, kind), data, dtype=self._dtype)
        return self._decode(data, kind)

    def _decode(self, data: Any, kind: Any) -> Any:
        def decoded() -> Any:
            image = tf.image.decode_image(data, channels=self._channels)
            return image if self._dtype == tf.uint8 else tf.image.convert_image_dtype(image, self._dtype)

        def raw() -> Any:
            return tf.decode_raw(data, out_type=self._dtype)

        is_raw = tf.logical_or(tf.equal(kind, "raw"), tf.equal(kind, "RAW"))
        image = tf.cond(is_raw, lambda: tf.reshape(raw(), self._shape or [-1]), decoded) if self._shape else decoded()
        image.set_shape([None, None, self._channels])
        return image if self._shape is None else tf.reshape(image, self._shape)


@export(f"{_SPACE}.LookupTensor")
class LookupTensor(Tensor):
    """A feature of strings, as the values that a table has for them."""

    def __init__(
        self, tensor_key: str, table: Any, shape_keys: Any = None, shape: Any = None, default_value: Any = ""
    ) -> None:
        """Takes the key, the table, and the arguments of Tensor."""
        self._table = table
        super().__init__(tensor_key, shape_keys, shape, default_value)

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The values."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


@export(f"{_SPACE}.BackupHandler")
class BackupHandler(ItemHandler):
    """One handler, or another where the first gives nothing."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        """Takes both."""
        self._handler, self._backup = handler, backup
        super().__init__([*handler.keys, *backup.keys])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item of the first, unless that is empty."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return tf.cond(
            tf.equal(tf.reduce_prod(tf.shape(item)), 0),
            lambda: self._backup.tensors_to_item(keys_to_tensors),
            lambda: item,
        )


@export(f"{_SPACE}.TFExampleDecoder")
class TFExampleDecoder(DataDecoder):
    """Makes items of a serialized tf.Example."""

    def __init__(self, keys_to_features: dict[str, Any], items_to_handlers: dict[str, Any]) -> None:
        """Takes the features, and a handler by item."""
        self._keys_to_features, self._items_to_handlers = keys_to_features, items_to_handlers

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._items_to_handlers)

    def decode(self, serialized_example: Any, items: Any = None) -> list[Any]:
        """The tensors of items (all if None)."""
        parsed = tf.parse_single_example(serialized_example, self._keys_to_features)
        for key in sorted(self._keys_to_features):
            feature = self._keys_to_features[key]
            if isinstance(feature, tf.FixedLenFeature):
                parsed[key] = tf.reshape(parsed[key], feature.shape)
        outputs = []
        for item in items or self._items_to_handlers:
            handler = self._items_to_handlers[item]
            outputs.append(handler.tensors_to_item({key: parsed[key] for key in handler.keys}))
        return outputs
