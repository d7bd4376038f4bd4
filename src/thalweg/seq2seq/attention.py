"""Attention mechanisms: how well each position of a memory fits a query (Bahdanau et al., 2014; Luong et al., 2015)."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.layers.core import Dense
from thalweg.ops.array.filling import zeros
from thalweg.ops.array.patches import sequence_mask
from thalweg.ops.array.select import where
from thalweg.ops.array.shapes_of_tensors import size_of_axis
from thalweg.ops.math.matmul import matmul
from thalweg.ops.nn.softmax import softmax
from thalweg.rnn.cell_base import sizes_with_batch, weight
from thalweg.rnn.steps import batch_size_of
from thalweg.state.initializers import Constant, Zeros
from thalweg.state.variable_scope import get_variable, variable_scope


@export("contrib.seq2seq.AttentionMechanism")
class AttentionMechanism:
    """The interface: `alignments, next_state = mechanism(query, state)`, and the memory as `keys` and `values`."""

    @property
    def alignments_size(self) -> Any:
        """The number of positions of the memory."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """The size of the state that goes from step to step."""
        raise NotImplementedError


class _Mechanism(AttentionMechanism):
    """The base class of mechanisms: the projected memory, the mask, and the probabilities."""

    def __init__(
        self, memory: Any, memory_sequence_length: Any, query_layer: Any, memory_layer: Any, probability_fn: Any,
        score_mask_value: Any, name: str,
    ) -> None:  # fmt: skip
        self._query_layer = query_layer
        self._memory_layer = memory_layer
        self._probability_fn = probability_fn or softmax
        with name_scope(name, "BaseAttentionMechanismInit", nest.flatten(memory)):
            self._values = convert_to_tensor(memory, name="memory")
            if self._values.shape.ndims not in (None, 3):
                raise ValueError(f"The memory must be [batch, time, size], got the shape {self._values.shape}.")
            sizes = self._values.shape.as_list() if self._values.shape.ndims else [None] * 3
            self._batch_size = batch_size_of([self._values], 0)
            self._alignments_size = sizes[1] if sizes[1] is not None else size_of_axis(self._values, 1)
            self._mask: Tensor | None = None
            if memory_sequence_length is not None:
                self._mask = sequence_mask(memory_sequence_length, self._alignments_size)
                kept = apply_one("Cast", apply_one("ExpandDims", self._mask, -1), DstT=self._values.dtype)
                self._values = apply_one("Mul", self._values, kept, name="mul")
            self._keys = self._values if memory_layer is None else memory_layer(self._values)
            self._score_mask_value = -math.inf if score_mask_value is None else score_mask_value

    @property
    def memory_layer(self) -> Any:
        """The layer that makes keys of the memory."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """The layer that queries go through."""
        return self._query_layer

    @property
    def values(self) -> Tensor:
        """The memory, zero past the end of each sequence."""
        return self._values

    @property
    def keys(self) -> Tensor:
        """The projected memory that queries are compared with."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        """The number of positions of the memory."""
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        """The state is the last alignments."""
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """Alignments before the first step: zeros."""
        sizes = sizes_with_batch(batch_size, 0)
        if isinstance(self._alignments_size, int) and not isinstance(sizes, Tensor):
            return zeros([sizes[0], self._alignments_size], dtype=dtype)
        first = sizes[0] if not isinstance(sizes, Tensor) else batch_size
        result = zeros(apply_one("Pack", [first, self._alignments_size], axis=0), dtype=dtype)
        known = self._alignments_size if isinstance(self._alignments_size, int) else None
        result.set_shape([None if isinstance(sizes, Tensor) else sizes[0], known])
        return result

    def initial_state(self, batch_size: Any, dtype: Any) -> Tensor:
        """The state before the first step."""
        return self.initial_alignments(batch_size, dtype)

    _scope: str

    def _score(self, query: Any) -> Any:
        raise NotImplementedError("A mechanism says how well each position fits the query.")

    def __call__(self, query: Any, state: Any) -> Any:
        """Alignments [batch, time] for queries [batch, size], and the next state."""
        with variable_scope(None, self._scope, [query]):
            alignments = self._probabilities(self._score(query), state)
        return alignments, alignments

    def _probabilities(self, score: Any, state: Any) -> Any:
        return self._probability_fn(self._masked(score))

    def _masked(self, score: Any) -> Any:
        """The scores, with the mask's value past the end of each sequence."""
        if self._mask is not None:
            masked = apply_one(
                "Fill", apply_one("Shape", score), convert_to_tensor(self._score_mask_value, score.dtype)
            )
            score = where(self._mask, score, masked)
        return score


@export("contrib.seq2seq.BahdanauAttention")
class BahdanauAttention(_Mechanism):
    """Additive attention: `v · tanh(keys + query)`."""

    _scope = "bahdanau_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Any = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:
        """Describes the mechanism.

        Args:
            num_units: The size of keys and queries.
            memory: [batch, time, size]: usually the outputs of an encoder.
            memory_sequence_length: The length of each sequence of the memory.
            normalize: Whether `v` is normalized and scaled (Salimans and Kingma, 2016).
            probability_fn: Makes alignments of scores; softmax if None.
            score_mask_value: The score of positions past the end; minus infinity if None.
            dtype: The type of the layers.
            custom_key_value_fn: A function of (keys, values) that returns the keys and values to use.
            name: The name scope.
        """
        super().__init__(
            memory, memory_sequence_length, Dense(num_units, name="query_layer", use_bias=False, dtype=dtype),
            Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype), probability_fn, score_mask_value, name,
        )  # fmt: skip
        self._num_units = num_units
        self._normalize = normalize
        if custom_key_value_fn is not None:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)

    def _score(self, query: Any) -> Any:
        processed = apply_one("ExpandDims", self._query_layer(query), 1)
        dtype = processed.dtype
        v = weight(get_variable("attention_v", [self._num_units], dtype))
        hidden = self._keys + processed
        if self._normalize:
            initial = Constant(math.sqrt(1.0 / self._num_units))
            g = weight(get_variable("attention_g", [], dtype, initial))
            b = weight(get_variable("attention_b", [self._num_units], dtype, Zeros()))
            v = g * v * apply_one("Rsqrt", apply_one("Sum", apply_one("Square", v), [0]))
            hidden = hidden + b
        return apply_one("Sum", v * apply_one("Tanh", hidden), [2])


@export("contrib.seq2seq.LuongAttention")
class LuongAttention(_Mechanism):
    """Multiplicative attention: `keys · query`. Queries have `num_units` elements."""

    _scope = "luong_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Any = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "LuongAttention",
    ) -> None:
        """Describes the mechanism; `scale` learns a factor for the scores, the rest is as for BahdanauAttention."""
        super().__init__(
            memory, memory_sequence_length, None, Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            probability_fn, score_mask_value, name,
        )  # fmt: skip
        self._num_units = num_units
        self._scale = scale
        if custom_key_value_fn is not None:
            self._keys, self._values = custom_key_value_fn(self._keys, self._values)

    def _score(self, query: Any) -> Any:
        query = convert_to_tensor(query)
        units, own = self._keys.shape.as_list()[-1], query.shape.as_list()[-1]
        if own != units:
            raise ValueError(
                "Incompatible or unknown inner dimensions between query and keys. The query has "
                f"{own} elements, the keys {units}. Perhaps you need to set num_units to the keys' dimension?"
            )
        score = apply_one(
            "Squeeze", matmul(apply_one("ExpandDims", query, 1), self._keys, transpose_b=True), squeeze_dims=[1]
        )
        if self._scale:
            score = weight(get_variable("attention_g", [], query.dtype, Constant(1.0))) * score
        return score
