"""More calls of the kinds in `advisory_cases.py`: resources and lists, networks, pictures, texts, files, datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf
from tests.fuzz.advisory_cases import HUGE, SPATIAL, Case, f32, i32, i64

raw = tf.raw_ops
F0, I0, ONE = np.float32(0), np.int32(0), np.int32(1)


def text(*values: bytes) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def word(value: bytes) -> np.ndarray[Any, Any]:
    return np.array(value, object)


def made(op: str, **arguments: Any) -> Callable[[], Any]:
    """The first result of another op, as an input."""

    def make() -> Any:
        resolved = {key: value() if callable(value) and not isinstance(value, type) else value
                    for key, value in arguments.items()}  # fmt: skip
        found = getattr(raw, op)(**resolved)
        return found[0] if isinstance(found, (list, tuple)) else found

    return make


QUEUE = made("FIFOQueueV2", component_types=[tf.float32], capacity=4)
SHAPED_QUEUE = made("FIFOQueueV2", component_types=[tf.float32], shapes=[[2]], capacity=4)
ARRAY = made("TensorArrayV3", size=2, dtype=tf.float32)
LIST = made("TensorListReserve", element_shape=[2], num_elements=2, element_dtype=tf.float32)
TABLE = made("MutableHashTableV2", key_dtype=tf.string, value_dtype=tf.int64)
STACK = made("StackV2", max_size=-1, elem_type=tf.float32)
BARRIER = made("Barrier", component_types=[tf.float32], shapes=[[2]])
SUMS = made("ResourceConditionalAccumulator", dtype=tf.float32, shape=[2])
RANGE = made("RangeDataset", start=np.int64(0), stop=np.int64(9), step=np.int64(1), output_types=[tf.int64],
             output_shapes=[[]])  # fmt: skip
INT64S = {"output_types": [tf.int64], "output_shapes": [[]]}


def variable_of(name: str, dtype: tf.DType = tf.float32) -> Callable[[], Any]:
    """The handle of a variable of shape [2] that has a value."""

    def make() -> Any:
        handle = raw.VarHandleOp(dtype=dtype, shape=[2], shared_name=name)
        with tf.control_dependencies([raw.AssignVariableOp(resource=handle, value=tf.ones([2], dtype))]):
            return tf.identity(handle)

    return make


variable, slot, counter = variable_of("advisory"), variable_of("slot"), variable_of("counter", tf.int32)


NORM = {"scale": f32(3), "offset": f32(3), "mean": f32(3), "variance": f32(3)}
RATES = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
PATCHES = {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
LSTM = {"x": f32(1, 2), "cs_prev": f32(1, 3), "h_prev": f32(1, 3), "w": f32(5, 12), "wci": f32(3), "wcf": f32(3),
        "wco": f32(3), "b": f32(12)}  # fmt: skip
BOXES = {"iou_threshold": np.float32(0.5), "score_threshold": F0}
FLOAT = {"dtype": tf.float32}
ELEMENT = {"element_dtype": tf.float32}

# Op, what is wrong, inputs, attributes.
REFUSED = [
    ("QueueEnqueueV2", "component of another type", {"handle": QUEUE, "components": [i32(1)]}, {}),
    ("QueueEnqueueV2", "component of another shape", {"handle": SHAPED_QUEUE, "components": [f32(5)]}, {}),
    ("QueueEnqueueV2", "two components", {"handle": QUEUE, "components": [f32(1), f32(1)]}, {}),
    ("QueueEnqueueManyV2", "scalar", {"handle": SHAPED_QUEUE, "components": [np.float32(1)]}, {}),
    ("QueueEnqueueV2", "handle of a table", {"handle": TABLE, "components": [f32(1)]}, {}),
    ("QueueDequeueManyV2", "negative number", {"handle": SHAPED_QUEUE, "n": np.int32(-1)},
     {"component_types": [tf.float32]}),
    ("QueueDequeueManyV2", "shapes not known", {"handle": QUEUE, "n": ONE}, {"component_types": [tf.float32]}),
    ("QueueDequeueUpToV2", "number that is no scalar", {"handle": SHAPED_QUEUE, "n": i32(1, 1)},
     {"component_types": [tf.float32]}),
    ("TensorArrayWriteV3", "index out of range", {"handle": ARRAY, "index": np.int32(9), "value": f32(1),
                                                  "flow_in": F0}, {}),
    ("TensorArrayWriteV3", "negative index", {"handle": ARRAY, "index": np.int32(-1), "value": f32(1), "flow_in": F0},
     {}),
    ("TensorArrayWriteV3", "other type", {"handle": ARRAY, "index": I0, "value": i32(1), "flow_in": F0}, {}),
    ("TensorArrayReadV3", "nothing written", {"handle": ARRAY, "index": I0, "flow_in": F0}, FLOAT),
    ("TensorArrayGatherV3", "index out of range", {"handle": ARRAY, "indices": i32(9), "flow_in": F0}, FLOAT),
    ("TensorArrayScatterV3", "scalar value", {"handle": ARRAY, "indices": i32(0), "value": F0, "flow_in": F0}, {}),
    ("TensorArrayScatterV3", "negative index", {"handle": ARRAY, "indices": i32(-1), "value": f32(1), "flow_in": F0},
     {}),
    ("TensorArraySplitV3", "lengths that do not add up", {
        "handle": ARRAY, "value": f32(4), "lengths": i64(1, 9), "flow_in": F0}, {}),
    ("TensorArraySplitV3", "negative lengths", {
        "handle": ARRAY, "value": f32(4), "lengths": i64(-4, 8), "flow_in": F0}, {}),
    ("TensorArraySplitV3", "scalar value", {"handle": ARRAY, "value": F0, "lengths": i64(0, 0), "flow_in": F0}, {}),
    ("TensorArrayConcatV3", "nothing written", {"handle": ARRAY, "flow_in": F0}, FLOAT),
    ("TensorArraySizeV3", "handle of a queue", {"handle": QUEUE, "flow_in": F0}, {}),
    ("TensorArrayV3", "negative size", {"size": np.int32(-1)}, FLOAT),
    ("TensorArrayV3", "size that is no scalar", {"size": i32(1, 1)}, FLOAT),
    ("TensorListGetItem", "index out of range", {"input_handle": LIST, "index": np.int32(9), "element_shape": i32(2)},
     ELEMENT),
    ("TensorListGetItem", "negative index", {"input_handle": LIST, "index": np.int32(-1), "element_shape": i32(2)},
     ELEMENT),
    ("TensorListSetItem", "item of another shape", {"input_handle": LIST, "index": I0, "item": f32(9)}, {}),
    ("TensorListSetItem", "item of another type", {"input_handle": LIST, "index": I0, "item": i32(1, 2)}, {}),
    ("TensorListReserve", "negative number", {"element_shape": i32(2), "num_elements": np.int32(-5)}, ELEMENT),
    ("TensorListReserve", "number that is no scalar", {"element_shape": i32(2), "num_elements": i32(2, 2)}, ELEMENT),
    ("TensorListResize", "negative size", {"input_handle": LIST, "size": np.int32(-1)}, {}),
    ("TensorListFromTensor", "scalar", {"tensor": F0, "element_shape": i32()}, {}),
    ("TensorListFromTensor", "other shape", {"tensor": f32(2, 3), "element_shape": i32(9)}, {}),
    ("TensorListStack", "other number", {"input_handle": LIST, "element_shape": i32(2)},
     {**ELEMENT, "num_elements": 7}),
    ("TensorListGather", "index out of range", {"input_handle": LIST, "indices": i32(9), "element_shape": i32(2)},
     ELEMENT),
    ("TensorListScatter", "negative index", {"tensor": f32(1, 2), "indices": i32(-1), "element_shape": i32(2)}, {}),
    ("TensorListScatterV2", "index beyond the number", {
        "tensor": f32(1, 2), "indices": i32(9), "element_shape": i32(2), "num_elements": np.int32(2)}, {}),
    ("TensorListScatterIntoExistingList", "other lengths", {
        "input_handle": LIST, "tensor": f32(3, 2), "indices": i32(0)}, {}),
    ("TensorListSplit", "lengths that do not add up", {
        "tensor": f32(4, 2), "element_shape": i32(-1, 2), "lengths": i64(1, 9)}, {}),
    ("TensorListSplit", "negative lengths", {
        "tensor": f32(4, 2), "element_shape": i32(-1, 2), "lengths": i64(-4, 8)}, {}),
    ("TensorListConcatV2", "scalar elements", {
        "input_handle": made("TensorListReserve", element_shape=np.zeros(0, np.int32), num_elements=2,
                             element_dtype=tf.float32), "element_shape": i32(), "leading_dims": i64()}, ELEMENT),
    ("TensorListPopBack", "empty list", {
        "input_handle": made("EmptyTensorList", element_shape=[2], max_num_elements=5, element_dtype=tf.float32),
        "element_shape": i32(2)}, ELEMENT),
    ("TensorListPushBack", "more than the most", {
        "input_handle": made("EmptyTensorList", element_shape=[2], max_num_elements=0, element_dtype=tf.float32),
        "tensor": f32(2)}, {}),
    ("TensorListConcatLists", "other shapes", {
        "input_a": LIST, "input_b": made("TensorListReserve", element_shape=[2, 2], num_elements=1,
                                         element_dtype=tf.float32)}, ELEMENT),
    ("TensorListLength", "dataset in place of a list", {"input_handle": RANGE}, {}),
    ("StackPopV2", "empty stack", {"handle": STACK}, {"elem_type": tf.float32}),
    ("StackPushV2", "other type", {"handle": STACK, "elem": i32(1)}, {}),
    ("StackV2", "size that is no scalar", {"max_size": i32(1, 1)}, {"elem_type": tf.float32}),
    ("BarrierInsertMany", "component out of range", {"handle": BARRIER, "keys": text(b"a"), "values": f32(1, 2)},
     {"component_index": 9}),
    ("BarrierInsertMany", "other lengths", {"handle": BARRIER, "keys": text(b"a", b"b"), "values": f32(1, 2)},
     {"component_index": 0}),
    ("BarrierInsertMany", "scalar values", {"handle": BARRIER, "keys": text(b"a"), "values": F0},
     {"component_index": 0}),
    ("BarrierTakeMany", "negative number", {"handle": BARRIER, "num_elements": np.int32(-1)},
     {"component_types": [tf.float32]}),
    ("LookupTableInsertV2", "other lengths", {"table_handle": TABLE, "keys": text(b"a"), "values": i64(1, 2)}, {}),
    ("LookupTableInsertV2", "other type", {"table_handle": TABLE, "keys": text(b"a"), "values": f32(1)}, {}),
    ("LookupTableFindV2", "default that is no scalar", {
        "table_handle": TABLE, "keys": text(b"a"), "default_value": i64(1, 2)}, {}),
    ("LookupTableFindV2", "handle of a queue", {
        "table_handle": QUEUE, "keys": text(b"a"), "default_value": np.int64(1)}, {}),
    ("LookupTableImportV2", "scalar keys", {"table_handle": TABLE, "keys": word(b"a"), "values": i64(1, 2)}, {}),
    ("InitializeTableV2", "other lengths", {
        "table_handle": made("HashTableV2", key_dtype=tf.string, value_dtype=tf.int64), "keys": text(b"a", b"b"),
        "values": i64(1)}, {}),
    ("InitializeTableV2", "key twice", {
        "table_handle": made("HashTableV2", key_dtype=tf.string, value_dtype=tf.int64), "keys": text(b"a", b"a"),
        "values": i64(1, 2)}, {}),
    ("InitializeTableFromTextFileV2", "no such file", {
        "table_handle": made("HashTableV2", key_dtype=tf.string, value_dtype=tf.int64),
        "filename": word(b"/proc/nonexistent")}, {"key_index": -2, "value_index": -1}),
    ("LookupTableInsertV2", "key that marks empty places", {
        "table_handle": made("MutableDenseHashTableV2", empty_key=np.int64(0), deleted_key=np.int64(-1),
                             value_dtype=tf.int64), "keys": i64(0), "values": i64(1)}, {}),
    ("MutableDenseHashTableV2", "one key for empty and deleted", {"empty_key": np.int64(3), "deleted_key": np.int64(3)},
     {"value_dtype": tf.int64}),
    ("MutableDenseHashTableV2", "buckets that are no power of two", {
        "empty_key": np.int64(3), "deleted_key": np.int64(4)}, {"value_dtype": tf.int64, "initial_num_buckets": 7}),
    ("ResourceAccumulatorTakeGradient", "no gradients wanted", {"handle": SUMS, "num_required": I0}, FLOAT),
    ("ResourceAccumulatorApplyGradient", "gradient of another shape", {
        "handle": SUMS, "local_step": np.int64(0), "gradient": f32(9)}, {}),
    ("ResourceAccumulatorApplyGradient", "handle of a queue", {
        "handle": QUEUE, "local_step": np.int64(0), "gradient": f32(2)}, {}),
    ("ResourceGather", "index out of range", {"resource": variable, "indices": i32(9)}, FLOAT),
    ("ResourceGather", "handle of a table", {"resource": TABLE, "indices": i32(0)}, FLOAT),
    ("ResourceGatherNd", "index deeper than the variable", {
        "resource": variable, "indices": np.zeros((1, 5), np.int32)}, FLOAT),
    ("ResourceScatterAdd", "index out of range", {"resource": variable, "indices": i32(9), "updates": f32(1)}, {}),
    ("ResourceScatterUpdate", "negative index", {"resource": variable, "indices": i32(-1), "updates": f32(1)}, {}),
    ("ResourceScatterMul", "updates of another shape", {
        "resource": variable, "indices": i32(0), "updates": f32(1, 7)}, {}),
    ("ResourceScatterDiv", "division by zero", {"resource": counter, "indices": i32(0), "updates": i32(0)}, {}),
    ("ResourceScatterNdUpdate", "index out of range", {
        "ref": variable, "indices": np.array([[9]], np.int32), "updates": f32(1)}, {}),
    ("ResourceStridedSliceAssign", "value of another shape", {
        "ref": variable, "begin": i32(0), "end": i32(2), "strides": i32(1), "value": f32(7)}, {}),
    ("ResourceApplyGradientDescent", "gradient of another shape", {
        "var": variable, "alpha": np.float32(1), "delta": f32(9)}, {}),
    ("ResourceApplyGradientDescent", "rate that is no scalar", {"var": variable, "alpha": f32(2), "delta": f32(2)},
     {}),
    ("ResourceApplyMomentum", "handle of a queue", {
        "var": variable, "accum": QUEUE, "lr": F0, "grad": f32(2), "momentum": F0}, {}),
    ("ResourceSparseApplyAdagrad", "index out of range", {
        "var": variable, "accum": slot, "lr": F0, "grad": f32(1), "indices": i32(9)}, {}),
    ("ResourceSparseApplyMomentum", "other lengths", {
        "var": variable, "accum": slot, "lr": F0, "grad": f32(5), "indices": i32(0), "momentum": F0}, {}),
    ("AssignVariableOp", "value of another type", {"resource": variable, "value": i32(1, 2)}, {}),
    ("ReadVariableOp", "handle of a queue", {"resource": QUEUE}, FLOAT),
    ("ReadVariableOp", "another type", {"resource": variable}, {"dtype": tf.int32}),
    ("DeleteSessionTensor", "handle of nothing", {"handle": word(b"nothing")}, {}),
    ("Conv2D", "rank 3", {"input": f32(4, 4, 1), "filter": f32(2, 2, 1, 1)}, SPATIAL),
    ("Conv2D", "filter larger than the picture", {"input": f32(1, 2, 2, 1), "filter": f32(5, 5, 1, 1)}, SPATIAL),
    ("Conv2DBackpropFilter", "gradient of another shape", {
        "input": f32(1, 4, 4, 1), "filter_sizes": i32(2, 2, 1, 1), "out_backprop": f32(1, 9, 9, 1)}, SPATIAL),
    ("Conv2DBackpropInput", "gradient of another batch", {
        "input_sizes": i32(1, 4, 4, 1), "filter": f32(2, 2, 1, 1), "out_backprop": f32(5, 3, 3, 1)}, SPATIAL),
    ("Conv2DBackpropInput", "sizes that are a scalar", {
        "input_sizes": np.int32(4), "filter": f32(2, 2, 1, 1), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    ("Conv3D", "other channels", {"input": f32(1, 3, 3, 3, 2), "filter": f32(2, 2, 2, 3, 1)},
     {"strides": [1] * 5, "padding": "VALID"}),
    ("Conv3DBackpropInputV2", "negative sizes", {
        "input_sizes": i32(1, -3, 3, 3, 1), "filter": f32(2, 2, 2, 1, 1), "out_backprop": f32(1, 2, 2, 2, 1)},
     {"strides": [1] * 5, "padding": "VALID"}),
    ("DepthwiseConv2dNative", "other channels", {"input": f32(1, 4, 4, 2), "filter": f32(2, 2, 3, 1)}, SPATIAL),
    ("DepthwiseConv2dNativeBackpropFilter", "negative sizes", {
        "input": f32(1, 4, 4, 1), "filter_sizes": i32(2, -2, 1, 1), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    ("DepthwiseConv2dNativeBackpropInput", "sizes of three", {
        "input_sizes": i32(4, 4, 1), "filter": f32(2, 2, 1, 1), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    ("Dilation2D", "other depths", {"input": f32(1, 4, 4, 2), "filter": f32(2, 2, 3)}, RATES),
    ("Dilation2DBackpropFilter", "other shapes", {
        "input": f32(1, 4, 4, 1), "filter": f32(2, 2, 1), "out_backprop": f32(1, 9, 9, 1)}, RATES),
    ("FusedBatchNormV3", "variance of another length", {"x": f32(1, 2, 2, 3), **NORM, "variance": f32(7)},
     {"is_training": False}),
    ("FusedBatchNormV2", "matrix as scale", {"x": f32(1, 2, 2, 3), **NORM, "scale": f32(3, 3)},
     {"is_training": True}),
    ("FusedBatchNormGrad", "gradient of another shape", {
        "y_backprop": f32(1, 9, 9, 3), "x": f32(1, 2, 2, 3), "scale": f32(3), "reserve_space_1": f32(3),
        "reserve_space_2": f32(3)}, {"is_training": True}),
    ("LSTMBlockCell", "weights of another shape", {**LSTM, "w": f32(4, 12)}, {}),
    ("LSTMBlockCell", "scalar state", {**LSTM, "cs_prev": F0}, {}),
    ("GRUBlockCell", "biases of another length", {
        "x": f32(1, 2), "h_prev": f32(1, 3), "w_ru": f32(5, 6), "w_c": f32(5, 3), "b_ru": f32(9), "b_c": f32(3)}, {}),
    ("BlockLSTM", "longer than the input", {
        **LSTM, "x": f32(2, 1, 2), "seq_len_max": np.int64(99)}, {}),
    ("BlockLSTM", "negative length", {**LSTM, "x": f32(2, 1, 2), "seq_len_max": np.int64(-9)}, {}),
    ("SoftmaxCrossEntropyWithLogits", "other shapes", {"features": f32(2, 3), "labels": f32(3, 4)}, {}),
    ("SparseSoftmaxCrossEntropyWithLogits", "other lengths", {"features": f32(2, 3), "labels": i32(0)}, {}),
    ("SparseSoftmaxCrossEntropyWithLogits", "scalar", {"features": F0, "labels": i32(0)}, {}),
    ("LRN", "rank 3", {"input": f32(2, 2, 2)}, {}),
    ("CTCLoss", "sequence longer than the input", {
        "inputs": f32(2, 1, 3), "labels_indices": np.array([[0, 0]], np.int64), "labels_values": i32(0),
        "sequence_length": i32(99)}, {}),
    ("CTCLoss", "label out of range", {
        "inputs": f32(2, 1, 3), "labels_indices": np.array([[0, 0]], np.int64), "labels_values": i32(99),
        "sequence_length": i32(2)}, {}),
    ("CTCBeamSearchDecoder", "more paths than the beam is wide", {
        "inputs": f32(2, 1, 3), "sequence_length": i32(2)}, {"beam_width": 1, "top_paths": 5}),
    ("FakeQuantWithMinMaxVarsGradient", "other shapes", {
        "gradients": f32(3), "inputs": f32(5), "min": F0, "max": np.float32(1)}, {}),
    ("FakeQuantWithMinMaxVarsPerChannelGradient", "limits of another length", {
        "gradients": f32(2, 3), "inputs": f32(2, 3), "min": f32(7), "max": f32(7)}, {}),
    ("QuantizeAndDequantizeV2", "limits of two elements", {
        "input": f32(2), "input_min": f32(2), "input_max": f32(2)}, {"range_given": True}),
    ("QuantizeAndDequantizeV2", "axis out of range", {"input": f32(2), "input_min": F0, "input_max": F0},
     {"axis": 9}),
    ("QuantizeAndDequantizeV4", "limits out of order", {
        "input": f32(2), "input_min": np.float32(5), "input_max": np.float32(1)}, {"range_given": True}),
    ("QuantizedConv2D", "limits without elements", {
        "input": np.ones((1, 4, 4, 1), np.uint8), "filter": np.ones((2, 2, 1, 1), np.uint8), "min_input": f32(0),
        "max_input": f32(0), "min_filter": f32(0), "max_filter": f32(0)}, {**SPATIAL, "Tinput": tf.quint8,
                                                                          "Tfilter": tf.quint8}),
    ("ResizeBicubic", "empty picture", {"images": f32(1, 0, 0, 1), "size": i32(2, 2)}, {}),
    ("ResizeArea", "size of three", {"images": f32(1, 2, 2, 1), "size": i32(2, 2, 2)}, {}),
    ("ResizeNearestNeighbor", "rank 3", {"images": f32(2, 2, 1), "size": i32(2, 2)}, {}),
    ("ResizeBilinearGrad", "other depths", {"grads": f32(1, 2, 2, 1), "original_image": f32(1, 4, 4, 3)}, {}),
    ("ResizeBicubicGrad", "rank 3", {"grads": f32(2, 2, 1), "original_image": f32(1, 4, 4, 1)}, {}),
    ("ScaleAndTranslate", "scale of three", {
        "images": f32(1, 2, 2, 1), "size": i32(2, 2), "scale": f32(3), "translation": f32(2)}, {}),
    ("ScaleAndTranslateGrad", "rank 3", {
        "grads": f32(2, 2, 1), "original_image": f32(1, 4, 4, 1), "scale": f32(2), "translation": f32(2)}, {}),
    ("RGBToHSV", "two channels", {"images": f32(2, 2)}, {}),
    ("HSVToRGB", "scalar", {"images": F0}, {}),
    ("AdjustHue", "four channels", {"images": f32(2, 2, 4), "delta": F0}, {}),
    ("AdjustSaturation", "factor that is no scalar", {"images": f32(2, 2, 3), "scale": f32(2)}, {}),
    ("ExtractGlimpse", "offsets of another length", {"input": f32(1, 4, 4, 1), "size": i32(2, 2), "offsets": f32(3, 2)},
     {}),
    ("ExtractGlimpse", "negative size", {"input": f32(1, 4, 4, 1), "size": i32(-2, 2), "offsets": f32(1, 2)}, {}),
    ("ExtractImagePatches", "rank 3", {"images": f32(4, 4, 1)}, PATCHES),
    ("NonMaxSuppressionV5", "boxes of five numbers", {
        "boxes": f32(3, 5), "scores": f32(3), "max_output_size": ONE, **BOXES, "soft_nms_sigma": F0}, {}),
    ("NonMaxSuppressionV4", "threshold beyond one", {
        "boxes": f32(3, 4), "scores": f32(3), "max_output_size": ONE, "iou_threshold": np.float32(7),
        "score_threshold": F0}, {}),
    ("NonMaxSuppressionWithOverlaps", "not square", {
        "overlaps": f32(2, 3), "scores": f32(2), "max_output_size": ONE, "overlap_threshold": F0,
        "score_threshold": F0}, {}),
    ("CombinedNonMaxSuppression", "scores of another length", {
        "boxes": f32(1, 3, 1, 4), "scores": f32(1, 9, 1), "max_output_size_per_class": ONE, "max_total_size": ONE,
        **BOXES}, {}),
    ("CombinedNonMaxSuppression", "no boxes wanted", {
        "boxes": f32(1, 3, 1, 4), "scores": f32(1, 3, 1), "max_output_size_per_class": ONE, "max_total_size": I0,
        **BOXES}, {}),
    ("CropAndResize", "boxes of three numbers", {
        "image": f32(1, 4, 4, 1), "boxes": f32(1, 3), "box_ind": i32(0), "crop_size": i32(2, 2)}, {}),
    ("CropAndResizeGradBoxes", "box index out of range", {
        "grads": f32(1, 2, 2, 1), "image": f32(1, 4, 4, 1), "boxes": f32(1, 4), "box_ind": i32(9)}, {}),
    ("SampleDistortedBoundingBoxV2", "size of two", {
        "image_size": i32(4, 4), "bounding_boxes": f32(1, 1, 4), "min_object_covered": F0}, {}),
    ("SampleDistortedBoundingBox", "negative size", {
        "image_size": i32(-4, 4, 3), "bounding_boxes": np.zeros((1, 1, 4), np.float32)}, {}),
    ("DrawBoundingBoxesV2", "colours of another width", {
        "images": f32(1, 4, 4, 3), "boxes": f32(1, 1, 4), "colors": f32(1, 1)}, {}),
    ("DecodePng", "no picture", {"contents": word(b"not a picture")}, {}),
    ("DecodeGif", "no picture", {"contents": word(b"GIF89a\xff\xff\xff\xff")}, {}),
    ("DecodeBmp", "header of a huge picture", {
        "contents": word(b"BM" + bytes(8) + b"\x36\0\0\0\x28\0\0\0" + b"\xff\xff\xff\x7f" * 2 + bytes(30))}, {}),
    ("DecodeJpeg", "nothing", {"contents": word(b"")}, {}),
    ("DecodeAndCropJpeg", "window of three", {"contents": word(b"\xff\xd8"), "crop_window": i32(0, 0, 1)}, {}),
    ("DecodeImage", "no picture", {"contents": word(bytes(64))}, {}),
    ("ExtractJpegShape", "no picture", {"contents": word(b"\xff\xd8\xff")}, {}),
    ("EncodeJpeg", "empty picture", {"image": np.zeros((0, 4, 3), np.uint8)}, {}),
    ("EncodeJpeg", "rank 2", {"image": np.zeros((4, 4), np.uint8)}, {}),
    ("EncodeJpegVariableQuality", "quality beyond 100", {
        "images": np.zeros((2, 2, 3), np.uint8), "quality": np.int32(999)}, {}),
    ("DecodePaddedRaw", "negative length", {"input_bytes": text(b"abcd"), "fixed_length": np.int32(-4)},
     {"out_type": tf.float32}),
    ("DecodePaddedRaw", "length of three", {"input_bytes": text(b"abcd"), "fixed_length": np.int32(3)},
     {"out_type": tf.float32}),
    ("DecodeCompressed", "no compressed bytes", {"bytes": text(b"xyz")}, {"compression_type": "ZLIB"}),
    ("DecodeBase64", "no text of this kind", {"input": text(b"###")}, {}),
    ("DecodeCSV", "fewer fields", {"records": text(b"1"), "record_defaults": [f32(1), f32(1)]}, {}),
    ("DecodeCSV", "default of two elements", {"records": text(b"1"), "record_defaults": [f32(2)]}, {}),
    ("DecodeJSONExample", "no JSON", {"json_examples": text(b"{")}, {}),
    ("ParseTensor", "no tensor", {"serialized": word(b"\xff\xff\xff")}, {"out_type": tf.float32}),
    ("ParseTensor", "negative shape", {
        "serialized": word(b"\x08\x01\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01")}, {"out_type": tf.float32}),
    ("ParseSingleExample", "no Example", {"serialized": word(b"\xff"), "dense_defaults": [f32(1)]},
     {"num_sparse": 0, "sparse_keys": [], "dense_keys": ["a"], "sparse_types": [], "dense_shapes": [[1]]}),
    ("StringNGrams", "splits beyond the texts", {"data": text(b"a"), "data_splits": i64(0, 99)},
     {"separator": "", "ngram_widths": [2], "left_pad": "", "right_pad": "", "pad_width": 0,
      "preserve_short_sequences": False}),
    ("StringNGrams", "splits that begin later", {"data": text(b"a"), "data_splits": i64(1, 1)},
     {"separator": "", "ngram_widths": [2], "left_pad": "", "right_pad": "", "pad_width": 0,
      "preserve_short_sequences": False}),
    ("UnicodeEncode", "splits beyond the values", {"input_values": i32(97), "input_splits": i64(0, 99)},
     {"output_encoding": "UTF-8"}),
    ("UnicodeEncode", "no splits", {"input_values": i32(97), "input_splits": i64()}, {"output_encoding": "UTF-8"}),
    ("UnicodeDecode", "bad bytes, strictly", {"input": text(b"\xff\xfe\xfd")},
     {"input_encoding": "UTF-8", "errors": "strict"}),
    ("Substr", "other shapes", {"input": text(b"a", b"b"), "pos": i32(0, 0, 0), "len": i32(1, 1, 1)}, {}),
    ("ReduceJoin", "axis out of range", {"inputs": text(b"a"), "reduction_indices": i32(9)}, {}),
    ("StringJoin", "other shapes", {"inputs": [text(b"a", b"b"), text(b"a", b"b", b"c")]}, {}),
    ("StringToNumber", "no number", {"string_tensor": text(b"abc")}, {"out_type": tf.int32}),
    ("RegexReplace", "pattern that is no expression", {
        "input": text(b"a"), "pattern": word(b"(("), "rewrite": word(b"")}, {}),
    ("RegexFullMatch", "repetition of a million", {"input": text(b"a"), "pattern": word(b"a{1000000}")}, {}),
    ("StringSplitV2", "separator that is no scalar", {"input": text(b"a"), "sep": text(b",", b";")}, {}),
    ("DeserializeSparse", "strings that are no tensors", {"serialized_sparse": text(b"a", b"b", b"c")}, FLOAT),
    ("DeserializeManySparse", "two columns", {"serialized_sparse": np.array([[b"a", b"b"]], object)}, FLOAT),
    ("SerializeManySparse", "negative row", {
        "sparse_indices": np.array([[-1, 0]], np.int64), "sparse_values": f32(1), "sparse_shape": i64(2, 2)},
     {"out_type": tf.string}),
    ("RestoreV2", "other lengths", {
        "prefix": word(b"/proc/nonexistent"), "tensor_names": text(b"a", b"b"), "shape_and_slices": text(b"")},
     {"dtypes": [tf.float32]}),
    ("SaveV2", "slice of another shape", {
        "prefix": word(b"/proc/nonexistent/x"), "tensor_names": text(b"a"), "shape_and_slices": text(b"4 9,9"),
        "tensors": [f32(2)]}, {}),
    ("MergeV2Checkpoints", "no such files", {
        "checkpoint_prefixes": text(b"/proc/nonexistent"), "destination_prefix": word(b"/proc/nonexistent/y")}, {}),
    ("ReadFile", "folder", {"filename": word(b"/")}, {}),
    ("ReadFile", "zero byte in the name", {"filename": word(b"a\0b")}, {}),
    ("IteratorFromStringHandleV2", "handle of nothing", {"string_handle": word(b"nothing")}, {}),
    ("DatasetToSingleElement", "more than one element", {"dataset": RANGE}, INT64S),
    ("DatasetCardinality", "list in place of a dataset", {"input_dataset": LIST}, {}),
    ("BatchDatasetV2", "batch of nothing", {
        "input_dataset": RANGE, "batch_size": np.int64(0), "drop_remainder": np.array(False)}, INT64S),
    ("ShuffleDataset", "buffer of nothing", {
        "input_dataset": RANGE, "buffer_size": np.int64(0), "seed": np.int64(1), "seed2": np.int64(1)}, INT64S),
    ("WindowDataset", "window of nothing", {
        "input_dataset": RANGE, "size": np.int64(0), "shift": np.int64(1), "stride": np.int64(1),
        "drop_remainder": np.array(True)}, {"output_types": [tf.variant], "output_shapes": [[]]}),
    ("RangeDataset", "step of zero", {"start": np.int64(0), "stop": np.int64(9), "step": np.int64(0)}, INT64S),
    ("PrefetchDataset", "negative buffer", {"input_dataset": RANGE, "buffer_size": np.int64(-7)}, INT64S),
    ("ShardDataset", "index beyond the number", {
        "input_dataset": RANGE, "num_shards": np.int64(2), "index": np.int64(9)}, INT64S),
    ("TensorSliceDataset", "other lengths", {"components": [f32(2), f32(3)]},
     {"Toutput_types": [tf.float32, tf.float32], "output_shapes": [[], []]}),
    ("TensorSliceDataset", "scalar", {"components": [F0]}, {"Toutput_types": [tf.float32], "output_shapes": [[]]}),
    ("SparseTensorSliceDataset", "rows out of order", {
        "indices": np.array([[5, 0], [0, 0]], np.int64), "values": f32(2), "dense_shape": i64(9, 2)}, {}),
    ("FixedLengthRecordDataset", "records of nothing", {
        "filenames": text(b"a"), "header_bytes": np.int64(0), "record_bytes": np.int64(0), "footer_bytes": np.int64(0),
        "buffer_size": np.int64(0)}, {}),
    ("ScalarSummary", "other shapes", {"tags": text(b"a", b"b"), "values": f32(3)}, {}),
    ("MergeSummary", "no summaries", {"inputs": [text(b"\xff\xff")]}, {}),
    ("UniformCandidateSampler", "more unique samples than classes", {"true_classes": np.array([[0]], np.int64)},
     {"num_true": 1, "num_sampled": 9, "unique": True, "range_max": 2}),
    ("LogUniformCandidateSampler", "class out of range", {"true_classes": np.array([[HUGE]], np.int64)},
     {"num_true": 1, "num_sampled": 2, "unique": False, "range_max": 5}),
    ("ComputeAccidentalHits", "other width", {"true_classes": np.array([[0]], np.int64), "sampled_candidates": i64(0)},
     {"num_true": 3}),
]  # fmt: skip

CASES = [Case(op, wrong, inputs, attrs) for op, wrong, inputs, attrs in REFUSED]
