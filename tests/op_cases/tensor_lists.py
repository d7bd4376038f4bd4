"""Cases of the ops on lists of tensors: tensors go in, tensors come out, lists are in between."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real

_raw = tf.raw_ops
_ANY = "float16 bfloat16 float32 float64 int32 complex128 string bool"


def _empty(x: Any, shape: Any = -1, most: int = -1) -> Any:
    return _raw.EmptyTensorList(element_shape=shape, max_num_elements=most, element_dtype=x.dtype)


def _reserve(x: Any, count: Any, shape: Any = -1) -> Any:
    return _raw.TensorListReserve(element_shape=shape, num_elements=count, element_dtype=x.dtype)


def _from(x: Any, shape: Any = -1) -> Any:
    return _raw.TensorListFromTensor(tensor=x, element_shape=shape)


def _stack(tensors: Any, x: Any, shape: Any = -1, count: int = -1) -> Any:
    return _raw.TensorListStack(
        input_handle=tensors, element_shape=shape, element_dtype=x.dtype, num_elements=count
    )  # fmt: skip


def _push(tensors: Any, *items: Any) -> Any:
    for item in items:
        tensors = _raw.TensorListPushBack(input_handle=tensors, tensor=item)
    return tensors


def _pop(x: Any) -> Any:
    rest, item = _raw.TensorListPopBack(input_handle=_from(x), element_shape=-1, element_dtype=x.dtype)
    return _stack(rest, x, tf.shape(x)[1:]), item


def _get(x: Any, index: Any, count: Any = None) -> Any:
    tensors = _from(x)
    if count is not None:
        tensors = _raw.TensorListResize(input_handle=tensors, size=count)
    return _raw.TensorListGetItem(input_handle=tensors, index=index, element_shape=-1, element_dtype=x.dtype)


def _set(x: Any, index: Any, item: Any, grows: bool = False) -> Any:
    changed = _raw.TensorListSetItem(
        input_handle=_from(x), index=index, item=item, resize_if_index_out_of_bounds=grows
    )  # fmt: skip
    return _stack(changed, x)


def _set_in_array(x: np.ndarray, index: Any, item: np.ndarray, grows: bool = False) -> np.ndarray:
    out = np.zeros((max(len(x), index + 1), *x.shape[1:]), x.dtype)
    out[: len(x)] = x
    out[index] = item
    return out


def _resize(x: Any, size: Any) -> Any:
    return _stack(_raw.TensorListResize(input_handle=_from(x), size=size), x)


def _gather(x: Any, indices: Any, shape: Any = -1) -> Any:
    return _raw.TensorListGather(input_handle=_from(x), indices=indices, element_shape=shape, element_dtype=x.dtype)


def _scattered(x: np.ndarray, indices: np.ndarray, count: int | None = None) -> np.ndarray:
    count = max(indices, default=-1) + 1 if count is None else count
    out = np.zeros((count, *x.shape[1:]), x.dtype)
    out[indices] = x
    return out


def _scatter(x: Any, indices: Any) -> Any:
    return _stack(_raw.TensorListScatter(tensor=x, indices=indices, element_shape=-1), x)


def _scatter_to(x: Any, indices: Any, count: Any) -> Any:
    tensors = _raw.TensorListScatterV2(tensor=x, indices=indices, element_shape=-1, num_elements=count)
    return _stack(tensors, x)


def _scatter_into(x: Any, rows: Any, indices: Any, shape: Any = -1) -> Any:
    tensors = _raw.TensorListScatterIntoExistingList(input_handle=_from(x, shape), tensor=rows, indices=indices)
    return _stack(tensors, x)


def _scatter_into_array(x: np.ndarray, rows: np.ndarray, indices: np.ndarray) -> np.ndarray:
    out = _scattered(np.zeros_like(rows), indices, max(len(x), max(indices) + 1))
    out[: len(x)] = x
    out[indices] = rows
    return out


def _split(x: Any, lengths: Any, shape: Any = -1) -> Any:
    return _raw.TensorListSplit(tensor=x, element_shape=shape, lengths=np.array(lengths, np.int64))


def _concat(x: Any, lengths: Any, shape: Any = -1, leading: tuple[int, ...] = ()) -> Any:
    return _raw.TensorListConcatV2(
        input_handle=_split(x, lengths), element_shape=shape, leading_dims=np.array(leading, np.int64),
        element_dtype=x.dtype,
    )  # fmt: skip


def _old_concat(x: Any, lengths: Any) -> Any:
    return _raw.TensorListConcat(input_handle=_split(x, lengths), element_dtype=x.dtype)[0]


_rows = [Args(real(3, 2)), Args(real(1)), Args(real(2, 1, 3))]
case("TensorListFromTensor", lambda x: _stack(_from(x), x), np.array, samples=_rows, dtypes=_ANY, order=2,
     bad=[Bad(Args(real()), match="at least a vector")])  # fmt: skip
case("TensorListFromTensor", lambda x: _stack(_from(x, [3]), x), np.array, samples=[Args(real(0, 3))],
     bad=[Bad(Args(real(2, 4)), match="shape [3] from a tensor with shape [4]")])  # fmt: skip
case("TensorListStack", lambda x, count: _stack(_from(x), x, tf.shape(x)[1:], count), lambda x, count: x,
     samples=[Args(real(3, 2), 3), Args(real(3, 0), -1), Args(real(0, 2), 0)], order=1,
     bad=[Bad(Args(real(3, 2), 2), match="2 elements but got a list with 3")])  # fmt: skip
case("TensorListStack", lambda x, y: _stack(_push(_empty(x), x, y), x), lambda x, y: np.stack([x, y]),
     samples=[Args(real(3, 2), real(3, 2))], order=2,
     bad=[Bad(Args(real(2), real(3)), match="[2] vs. [3]")])  # fmt: skip
case("TensorListStack", lambda x: _stack(_empty(x), x, tf.shape(x)[:-1]), lambda x: np.zeros((0, *x.shape[:-1])),
     samples=[Args(real(3, 2, constant=True))])  # fmt: skip
case("EmptyTensorList", lambda x, y: _stack(_push(_empty(x, [2], 2), x, y), x), lambda x, y: np.stack([x, y]),
     samples=[Args(real(2), real(2))], dtypes=_ANY, bad=[Bad(Args(real(2), real(3)), match="incompatible shape")],
     order=1)  # fmt: skip
case("EmptyTensorList", lambda x, shape, most: _stack(_push(_empty(x, shape, most), x), x, tf.shape(x)),
     lambda x, shape, most: x[None], samples=[Args(real(2), np.array([-1]), np.array(1, np.int32))],
     bad=[Bad(Args(real(2), np.array([-2]), np.array(1, np.int32)), match=">= -1"),
          Bad(Args(real(2), np.array([[2]]), np.array(1, np.int32)), match="rank 1"),
          Bad(Args(real(2), np.array(5), np.array(1, np.int32)), match="-1"),
          Bad(Args(real(2), np.array(-1), np.array([1], np.int32)), match="scalar"),
          Bad(Args(real(2), np.array([2]), np.array(0, np.int32)), match="full list")])  # fmt: skip
case("TensorListReserve", lambda x, count: _stack(_reserve(x, count, tf.shape(x)), x),
     lambda x, count: np.zeros((count, *x.shape), x.dtype),
     samples=[Args(real(2, 3, constant=True), np.array(n, np.int32)) for n in (0, 3)], dtypes="float32 int32 bool",
     bad=[Bad(Args(real(2), np.array(-1, np.int32)), match="non negative"),
          Bad(Args(real(2), np.array([2], np.int32)), match="scalar"),
          Bad(Args(real(1000), np.array(2**31 - 1, np.int32)))])  # fmt: skip
case("TensorListLength", lambda x: _raw.TensorListLength(input_handle=_from(x)), lambda x: np.int32(len(x)),
     samples=_rows)  # fmt: skip
case("TensorListElementShape",
     lambda x, shape: _raw.TensorListElementShape(input_handle=_empty(x, shape), shape_type=tf.int64),
     lambda x, shape: np.array(shape, np.int64), samples=[Args(real(1), s) for s in (-1, [2, -1], [5])])  # fmt: skip
case("TensorListPushBack", lambda x, y: _stack(_push(_from(x), y), x), lambda x, y: np.concatenate([x, y[None]]),
     samples=[Args(real(3, 2), real(2)), Args(real(1), real())], dtypes=_ANY, order=2)  # fmt: skip
case("TensorListPopBack", _pop, lambda x: (x[:-1], x[-1]), samples=_rows, dtypes=_ANY, order=2,
     bad=[Bad(Args(real(0, 2)), match="empty list")])  # fmt: skip
case("TensorListGetItem", _get, lambda x, index: x[index],
     samples=[Args(real(3, 2), np.array(i, np.int32)) for i in (0, 2)], dtypes=_ANY, order=2,
     bad=[Bad(Args(real(3, 2), np.array(i, np.int32)), match=f"element {i} in a list") for i in (3, -1)])  # fmt: skip
case("TensorListGetItem", _get, lambda x, index, count: np.zeros_like(x[0]),
     samples=[Args(real(3, 2, constant=True), np.array(4, np.int32), np.array(5, np.int32))])  # fmt: skip
case("TensorListSetItem", _set, _set_in_array,
     samples=[Args(real(3, 2), np.array(1, np.int32), real(2)),
              Args(real(1, 2), np.array(3, np.int32), real(2), grows=True)], order=2,
     bad=[Bad(Args(real(3, 2), np.array(3, np.int32), real(2)), match="element 3 in a list with 3"),
          Bad(Args(real(3, 2), np.array(-1, np.int32), real(2), grows=True), match="element -1"),
          Bad(Args(real(3, 2), np.array(2**31 - 1, np.int32), real(2), grows=True), match="beyond")])  # fmt: skip
case("TensorListResize", _resize, lambda x, size: _set_in_array(x, size - 1, x[0] * 0)[:size] if size > len(x)
     else x[:size], samples=[Args(real(3, 2), np.array(n, np.int32)) for n in (2, 3, 5)], order=2,
     bad=[Bad(Args(real(3), np.array(-1, np.int32)), match="non-negative"),
          Bad(Args(real(3), np.array([1], np.int32)), match="scalar")])  # fmt: skip
case("TensorListGather", _gather, lambda x, indices: x[indices],
     samples=[Args(real(3, 2), np.array(i, np.int32)) for i in ([0], [2, 0], [1, 1, 2, 1])], order=2,
     bad=[Bad(Args(real(3, 2), np.array([0, i], np.int32)), match=f"element {i}") for i in (3, -1)])  # fmt: skip
case("TensorListScatter", _scatter, _scattered,
     samples=[Args(real(3, 2), np.array(i, np.int32)) for i in ([0, 1, 2], [4, 0, 2])], order=2,
     bad=[Bad(Args(real(3, 2), np.array([0, 1], np.int32)), match="number of rows"),
          Bad(Args(real(2, 2), np.array([0, -1], np.int32)), match="non-negative"),
          Bad(Args(real(1, 2), np.array([2**31 - 1], np.int32)), match="beyond"),
          Bad(Args(real(), np.array([0], np.int32)), match="at least a vector")])  # fmt: skip
case("TensorListScatterV2", _scatter_to, lambda x, i, n: _scattered(x, i, None if n < 0 else n),
     samples=[Args(real(2, 2), np.array([3, 1], np.int32), np.array(n, np.int32)) for n in (-1, 6)], order=2,
     bad=[Bad(Args(real(2, 2), np.array([3, 1], np.int32), np.array(3, np.int32)), match="index 3 in list with size 3"),
          Bad(Args(real(2, 2), np.array([3, 1], np.int32), np.array(-2, np.int32)), match=">= -1")])  # fmt: skip
case("TensorListScatterIntoExistingList", _scatter_into, _scatter_into_array,
     samples=[Args(real(3, 2), real(2, 2), np.array(i, np.int32)) for i in ([0, 2], [5, 1])], order=2,
     bad=[Bad(Args(real(3, 2), real(2, 2), np.array([0, -5], np.int32)), match="non-negative"),
          Bad(Args(real(3, 2), real(2, 3), np.array([0, 1], np.int32), [2]), match="incompatible shape")])  # fmt: skip
case("TensorListSplit", lambda x, lengths: _stack(_split(x, lengths), x), lambda x, lengths: x.reshape(2, -1, 2),
     samples=[Args(real(4, 2), [2, 2])], order=2,
     bad=[Bad(Args(real(4, 2), [2, 1]), match="Unused values"), Bad(Args(real(4, 2), [2, 3]), match="slice"),
          Bad(Args(real(4, 2), [-1, 5]), match="lengths: -1"), Bad(Args(real(4, 2), [[2, 2]]), match="vector"),
          Bad(Args(real(), [1]), match="at least a vector")])  # fmt: skip
case("TensorListConcatV2", _concat, lambda x, lengths: (x, np.array(lengths, np.int64)),
     samples=[Args(real(4, 2), [1, 0, 3]), Args(real(3), [3])], dtypes=_ANY,
     bad=[Bad(Args(real(4, 2), [1, 3], [-1, 3]), match="[3] vs. [2]"),
          Bad(Args(real(4, 2), [1, 3], [1, 2]), match="Expected: 1 Actual: 3"),
          Bad(Args(real(0, 2), []), match="fully defined")])  # fmt: skip
case("TensorListConcatV2", lambda x, lengths: _concat(x, lengths)[0], lambda x, lengths: x,
     samples=[Args(real(4, 2), [1, 0, 3])], order=2)  # fmt: skip
case("TensorListConcat", _old_concat, lambda x, lengths: x, samples=[Args(real(4, 2), [1, 0, 3])], order=2,
     bad=[Bad(Args(real(0, 2), []), match="fully defined")])  # fmt: skip


def _push_batch(x: Any, y: Any, rows: Any) -> Any:
    lists = _raw.TensorListPushBackBatch(input_handles=tf.stack([_from(x), _from(y)]), tensor=rows)
    return _stack(lists[0], x), _stack(lists[1], x)


case("TensorListPushBackBatch", _push_batch,
     lambda x, y, rows: (np.concatenate([x, rows[:1]]), np.concatenate([y, rows[1:]])),
     samples=[Args(real(3, 2), real(1, 2), real(2, 2))],
     bad=[Bad(Args(real(3, 2), real(1, 2), real(3, 2)), match="3 vs. 2"),
          Bad(Args(real(1), real(1), real()), match="at least a vector")])  # fmt: skip
case("TensorListConcatLists",
     lambda x, y: _stack(_raw.TensorListConcatLists(input_a=_from(x), input_b=_from(y), element_dtype=x.dtype), x),
     lambda x, y: np.concatenate([x, y]), samples=[Args(real(3, 2), real(1, 2)), Args(real(0, 2), real(1, 2))],
     bad=[Bad(Args(real(3, 2), real(1, 3)), match="vs.")])  # fmt: skip
covered_elsewhere("gradients of functions use it; see tests/functions/test_list_gradients.py", "_VariantZeros")
