"""Calls of the kinds by which kernels of TensorFlow once crashed, read foreign memory or never ended.

Its security advisories of 2020 to 2023 are about inputs that are empty, negative, huge, not finite, of other shapes
than assumed, or handles of the wrong kind. Each case here is such a call of an op that Thalweg has too, and has to be
refused with an error. Inputs are fed without static shapes, so that they reach the kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A call: the op type, what is wrong, inputs by name (lists for lists of tensors), attributes."""

    op: str
    wrong: str
    inputs: dict[str, Any]
    attrs: dict[str, Any] = {}  # noqa: RUF012 (never changed)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def i32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


HUGE = 1 << 40
SPATIAL = {"strides": [1, 1, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
CUBE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}

CASES = [
    Case("AvgPool3DGrad", "shape of the input does not fit", {
        "orig_input_shape": i32(1, 1, 1, 1, 1), "grad": f32(1, 2, 2, 2, 1)}, CUBE),
    Case("AvgPoolGrad", "negative shape", {"orig_input_shape": i32(1, -4, 4, 1), "grad": f32(1, 2, 2, 1)}, POOL),
    Case("AvgPoolGrad", "shape with three sizes", {"orig_input_shape": i32(1, 4, 4), "grad": f32(1, 2, 2, 1)}, POOL),
    Case("BiasAddGrad", "scalar", {"out_backprop": np.float32(1)}),
    Case("BiasAdd", "bias of another length", {"value": f32(2, 3), "bias": f32(4)}),
    Case("Bincount", "negative size", {"arr": i32(1, 2), "size": np.int32(-1), "weights": f32(0)}),
    Case("Bincount", "weights of another length", {"arr": i32(1, 2), "size": np.int32(3), "weights": f32(5)}),
    Case("ConcatV2", "axis out of range", {"values": [f32(2, 2), f32(2, 2)], "axis": np.int32(7)}),
    Case("ConcatV2", "axis of two elements", {"values": [f32(2, 2), f32(2, 2)], "axis": i32(0, 1)}),
    Case("Conv2D", "filter with other channels", {"input": f32(1, 4, 4, 3), "filter": f32(2, 2, 2, 1)}, SPATIAL),
    Case("Conv2DBackpropFilter", "sizes with an empty filter", {
        "input": f32(1, 4, 4, 1), "filter_sizes": i32(0, 0, 0, 0), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    Case("Conv2DBackpropFilter", "negative sizes", {
        "input": f32(1, 4, 4, 1), "filter_sizes": i32(2, -2, 1, 1), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    Case("Conv2DBackpropInput", "negative sizes", {
        "input_sizes": i32(1, -4, 4, 1), "filter": f32(2, 2, 1, 1), "out_backprop": f32(1, 3, 3, 1)}, SPATIAL),
    Case("Conv2DBackpropInput", "huge sizes", {
        "input_sizes": i32(1, 2**30, 2**30, 2**30), "filter": f32(2, 2, 1, 1), "out_backprop": f32(1, 3, 3, 1)},
        SPATIAL),
    Case("Conv3DBackpropFilterV2", "sizes of rank 0", {
        "input": f32(1, 3, 3, 3, 1), "filter_sizes": np.int32(1), "out_backprop": f32(1, 2, 2, 2, 1)},
        {"strides": [1] * 5, "padding": "VALID"}),
    Case("CropAndResize", "box index out of range", {
        "image": f32(1, 4, 4, 1), "boxes": f32(1, 4), "box_ind": i32(9), "crop_size": i32(2, 2)}),
    Case("CropAndResize", "negative size", {
        "image": f32(1, 4, 4, 1), "boxes": f32(1, 4), "box_ind": i32(0), "crop_size": i32(-2, 2)}),
    Case("CropAndResizeGradImage", "huge image", {
        "grads": f32(1, 2, 2, 1), "boxes": f32(1, 4), "box_ind": i32(0), "image_size": i32(1, 2**30, 2**30, 1)},
        {"T": "float32"}),
    Case("CTCGreedyDecoder", "sequence longer than the input", {
        "inputs": f32(2, 1, 3), "sequence_length": i32(100)}),
    Case("CTCBeamSearchDecoder", "no classes", {"inputs": f32(2, 1, 0), "sequence_length": i32(2)},
        {"beam_width": 2, "top_paths": 1}),
    Case("CTCLoss", "label indices out of range", {
        "inputs": f32(2, 1, 3), "labels_indices": np.array([[9, 0]], np.int64), "labels_values": i32(0),
        "sequence_length": i32(2)}),
    Case("DecodeRaw", "bytes that are no whole number of elements", {"bytes": np.array(b"abc", object)},
        {"out_type": "float32"}),
    Case("Dequantize", "range without elements", {
        "input": np.ones((2,), np.uint8), "min_range": f32(0), "max_range": f32(0)}, {"T": "quint8"}),
    Case("DynamicStitch", "more data than indices", {"indices": [i32(0, 1)], "data": [f32(3)]}),
    Case("DynamicStitch", "negative index", {"indices": [i32(-5)], "data": [f32(1)]}),
    Case("EditDistance", "indices outside of the shape", {
        "hypothesis_indices": np.array([[9, 0]], np.int64), "hypothesis_values": i64(1), "hypothesis_shape": i64(1, 1),
        "truth_indices": np.array([[0, 0]], np.int64), "truth_values": i64(1), "truth_shape": i64(1, 1)}),
    Case("EncodePng", "empty picture", {"image": np.zeros((0, 0, 3), np.uint8)}),
    Case("FakeQuantWithMinMaxVars", "limits of two elements", {"inputs": f32(3), "min": f32(2), "max": f32(2)}),
    Case("FakeQuantWithMinMaxVarsPerChannel", "limits of another length", {
        "inputs": f32(3, 4), "min": f32(2), "max": f32(2)}),
    Case("FractionalAvgPoolGrad", "negative shape", {
        "orig_input_tensor_shape": i64(-1, 4, 4, 1), "out_backprop": f32(1, 2, 2, 1),
        "row_pooling_sequence": i64(0, 2, 4), "col_pooling_sequence": i64(0, 2, 4)}),
    Case("FractionalAvgPoolGrad", "sequence beyond the input", {
        "orig_input_tensor_shape": i64(1, 4, 4, 1), "out_backprop": f32(1, 2, 2, 1),
        "row_pooling_sequence": i64(0, 2, 400), "col_pooling_sequence": i64(0, 2, 4)}),
    Case("FractionalMaxPoolGrad", "other shapes", {
        "orig_input": f32(1, 4, 4, 1), "orig_output": f32(1, 9, 9, 1), "out_backprop": f32(1, 2, 2, 1),
        "row_pooling_sequence": i64(0, 2, 4), "col_pooling_sequence": i64(0, 2, 4)}),
    Case("FusedBatchNorm", "scale of another length", {
        "x": f32(1, 2, 2, 3), "scale": f32(2), "offset": f32(3), "mean": f32(0), "variance": f32(0)},
        {"is_training": True}),
    Case("FusedBatchNorm", "scalar input", {
        "x": np.float32(1), "scale": f32(1), "offset": f32(1), "mean": f32(0), "variance": f32(0)},
        {"is_training": True}),
    Case("GatherNd", "index out of range", {"params": f32(2, 2), "indices": np.array([[5, 0]], np.int32)}),
    Case("GatherNd", "index deeper than the tensor", {"params": f32(2), "indices": np.zeros((1, 3), np.int32)}),
    Case("GatherV2", "negative index", {"params": f32(3), "indices": i32(-1), "axis": np.int32(0)}),
    Case("HistogramFixedWidth", "no bins", {
        "values": f32(2), "value_range": np.array([0, 1], np.float32), "nbins": np.int32(0)}),
    Case("IRFFT", "negative length", {"input": np.ones((4,), np.complex64), "fft_length": i32(-2)}),
    Case("RFFT", "length of two elements", {"input": f32(4), "fft_length": i32(2, 2)}),
    Case("LRNGrad", "other shapes", {
        "input_grads": f32(1, 2, 2, 2), "input_image": f32(1, 4, 4, 2), "output_image": f32(1, 2, 2, 2)}),
    Case("MatrixDiagPart", "scalar", {"input": np.float32(1)}),
    Case("MatrixSetDiag", "diagonal of another length", {"input": f32(2, 2), "diagonal": f32(3)}),
    Case("MatrixTriangularSolve", "other shapes", {"matrix": f32(2, 2), "rhs": f32(3, 1)}),
    Case("MaxPoolGrad", "gradient of another shape", {
        "orig_input": f32(1, 4, 4, 1), "orig_output": f32(1, 2, 2, 1), "grad": f32(1, 9, 9, 1)}, POOL),
    Case("MaxPoolGradWithArgmax", "place out of range", {
        "input": f32(1, 4, 4, 1), "grad": f32(1, 2, 2, 1), "argmax": np.full((1, 2, 2, 1), HUGE)}, POOL),
    Case("MaxPoolGradWithArgmax", "negative place", {
        "input": f32(1, 4, 4, 1), "grad": f32(1, 2, 2, 1), "argmax": np.full((1, 2, 2, 1), -7)}, POOL),
    Case("MaxPool3DGradGrad", "other shapes", {
        "orig_input": f32(1, 4, 4, 4, 1), "orig_output": f32(1, 2, 2, 2, 1), "grad": f32(1, 1, 1, 1, 1)}, CUBE),
    Case("MirrorPad", "padding larger than the tensor", {
        "input": f32(2), "paddings": np.array([[9, 9]], np.int32)}, {"mode": "REFLECT"}),
    Case("MirrorPadGrad", "padding larger than the tensor", {
        "input": f32(2), "paddings": np.array([[9, 9]], np.int32)}, {"mode": "REFLECT"}),
    Case("NonMaxSuppressionV3", "scores of another length", {
        "boxes": f32(3, 4), "scores": f32(2), "max_output_size": np.int32(2), "iou_threshold": np.float32(0.5),
        "score_threshold": np.float32(0)}),
    Case("NonMaxSuppressionV3", "negative size", {
        "boxes": f32(3, 4), "scores": f32(3), "max_output_size": np.int32(-2), "iou_threshold": np.float32(0.5),
        "score_threshold": np.float32(0)}),
    Case("Pad", "negative padding", {"input": f32(2), "paddings": np.array([[-9, 0]], np.int32)}),
    Case("ParameterizedTruncatedNormal", "empty means", {
        "shape": i32(4), "means": f32(0), "stdevs": f32(1), "minvals": f32(1), "maxvals": f32(1)}),
    Case("RandomPoissonV2", "negative shape", {"shape": i32(-1), "rate": f32(1)}, {"dtype": "int32"}),
    Case("RandomGamma", "huge shape", {"shape": i32(2**30, 2**30), "alpha": f32(1)}),
    Case("Range", "step of zero", {"start": np.int32(0), "limit": np.int32(5), "delta": np.int32(0)}),
    Case("Range", "too many elements", {
        "start": np.int64(0), "limit": np.int64(1 << 62), "delta": np.int64(1)}),
    Case("ResizeBilinear", "negative size", {"images": f32(1, 2, 2, 1), "size": i32(-1, 2)}),
    Case("ResizeNearestNeighborGrad", "huge size", {"grads": f32(1, 2, 2, 1), "size": i32(2**30, 2**30)}),
    Case("Reverse", "other number of axes", {"tensor": f32(2, 2), "dims": np.array([True])}),
    Case("ReverseSequence", "axis of sequences equals that of batches", {
        "input": f32(2, 2), "seq_lengths": i64(1, 1)}, {"seq_dim": 0, "batch_dim": 0}),
    Case("ReverseSequence", "length beyond the axis", {
        "input": f32(2, 2), "seq_lengths": i64(9, 9)}, {"seq_dim": 1, "batch_dim": 0}),
    Case("ReverseSequence", "negative axis", {"input": f32(2, 2), "seq_lengths": i64(1, 1)}, {"seq_dim": -9}),
    Case("ScatterNd", "index out of range", {
        "indices": np.array([[9]], np.int32), "updates": f32(1), "shape": i32(2)}),
    Case("ScatterNd", "huge shape", {
        "indices": np.array([[0, 0]], np.int64), "updates": f32(1), "shape": i64(HUGE, HUGE)}),
    Case("SegmentSum", "negative segment", {"data": f32(2), "segment_ids": i32(-3, -3)}),
    Case("SegmentSum", "more segments than rows", {"data": f32(2), "segment_ids": i32(0, 0, 1)}),
    Case("UnsortedSegmentSum", "negative number of segments", {
        "data": f32(2), "segment_ids": i32(0, 0), "num_segments": np.int32(-1)}),
    Case("UnsortedSegmentSum", "segments of another shape", {
        "data": f32(2), "segment_ids": i32(0, 0, 0), "num_segments": np.int32(1)}),
    Case("SpaceToBatchND", "block of zero", {
        "input": f32(1, 2, 2, 1), "block_shape": i32(0, 1), "paddings": np.zeros((2, 2), np.int32)}),
    Case("BatchToSpaceND", "crops beyond the tensor", {
        "input": f32(4, 1, 1, 1), "block_shape": i32(2, 2), "crops": np.full((2, 2), 9, np.int32)}),
    Case("SparseAdd", "indices of another width", {
        "a_indices": np.zeros((1, 3), np.int64), "a_values": f32(1), "a_shape": i64(2, 2),
        "b_indices": np.zeros((1, 2), np.int64), "b_values": f32(1), "b_shape": i64(2, 2), "thresh": np.float32(0)}),
    Case("SparseConcat", "indices of another width", {
        "indices": [np.zeros((1, 1), np.int64)] * 2, "values": [f32(1)] * 2, "shapes": [i64(2, 2)] * 2},
        {"concat_dim": 0}),
    Case("SparseDenseCwiseMul", "indices out of range", {
        "sp_indices": np.array([[9, 9]], np.int64), "sp_values": f32(1), "sp_shape": i64(2, 2), "dense": f32(2, 2)}),
    Case("SparseDenseCwiseDiv", "values of another length", {
        "sp_indices": np.zeros((2, 2), np.int64), "sp_values": f32(1), "sp_shape": i64(2, 2), "dense": f32(2, 2)}),
    Case("SparseFillEmptyRows", "negative row", {
        "indices": np.array([[-1, 0]], np.int64), "values": f32(1), "dense_shape": i64(2, 2),
        "default_value": np.float32(0)}),
    Case("SparseFillEmptyRowsGrad", "place out of range", {
        "reverse_index_map": i64(9), "grad_values": f32(1)}),
    Case("SparseMatMul", "other shapes", {"a": f32(2, 3), "b": f32(2, 3)}),
    Case("SparseReduceSum", "axis out of range", {
        "input_indices": np.zeros((1, 2), np.int64), "input_values": f32(1), "input_shape": i64(2, 2),
        "reduction_axes": i32(7)}),
    Case("SparseReorder", "indices out of range", {
        "input_indices": np.array([[9, 9]], np.int64), "input_values": f32(1), "input_shape": i64(2)}),
    Case("SparseReshape", "other number of elements", {
        "input_indices": np.zeros((1, 2), np.int64), "input_shape": i64(2, 2), "new_shape": i64(3, -1)}),
    Case("SparseSlice", "other ranks", {
        "indices": np.zeros((1, 2), np.int64), "values": f32(1), "shape": i64(2, 2), "start": i64(0), "size": i64(1)}),
    Case("SparseSplit", "axis out of range", {
        "split_dim": np.int64(9), "indices": np.zeros((1, 2), np.int64), "values": f32(1), "shape": i64(2, 2)},
        {"num_split": 2}),
    Case("SparseTensorDenseMatMul", "indices out of range", {
        "a_indices": np.array([[0, 9]], np.int64), "a_values": f32(1), "a_shape": i64(2, 2), "b": f32(2, 2)}),
    Case("SparseTensorDenseAdd", "indices out of range", {
        "a_indices": np.array([[9, 9]], np.int64), "a_values": f32(1), "a_shape": i64(2, 2), "b": f32(2, 2)}),
    Case("SparseToDense", "indices out of range", {
        "sparse_indices": np.array([[9]], np.int64), "output_shape": i64(2), "sparse_values": np.float32(1),
        "default_value": np.float32(0)}),
    Case("SparseSegmentSum", "segment out of order", {"data": f32(3), "indices": i32(0, 1), "segment_ids": i32(5, 1)}),
    Case("SparseSegmentMeanGrad", "negative size", {
        "grad": f32(1), "indices": i32(0), "segment_ids": i32(0), "output_dim0": np.int32(-1)}),
    Case("SplitV", "sizes that do not add up", {
        "value": f32(4), "size_splits": i64(3, 9), "split_dim": np.int32(0)}, {"num_split": 2}),
    Case("SplitV", "negative sizes", {
        "value": f32(4), "size_splits": i64(-5, 9), "split_dim": np.int32(0)}, {"num_split": 2}),
    Case("Split", "no parts fit", {"split_dim": np.int32(0), "value": f32(5)}, {"num_split": 2}),
    Case("StridedSlice", "stride of zero", {
        "input": f32(4), "begin": i32(0), "end": i32(2), "strides": i32(0)}),
    Case("StringSplit", "delimiter that is no scalar", {
        "input": np.array([b"a b"], object), "delimiter": np.array([b" ", b","], object)}),
    Case("Substr", "place beyond the text", {
        "input": np.array(b"abc", object), "pos": np.int32(-9), "len": np.int32(1)}),
    Case("Tile", "negative multiples", {"input": f32(2), "multiples": i32(-1)}),
    Case("Tile", "huge multiples", {"input": f32(2, 2), "multiples": i32(2**30, 2**30)}),
    Case("TopKV2", "more than there are", {"input": f32(2), "k": np.int32(5)}),
    Case("Transpose", "axis twice", {"x": f32(2, 2), "perm": i32(0, 0)}),
    Case("UnravelIndex", "dims with a zero", {"indices": i32(1), "dims": i32(0, 3)}),
    Case("UnravelIndex", "index out of range", {"indices": i32(99), "dims": i32(2, 3)}),
    Case("UpperBound", "other numbers of rows", {"sorted_inputs": f32(2, 3), "values": f32(3, 3)}),
    Case("LowerBound", "vectors in place of matrices", {"sorted_inputs": f32(2), "values": f32(2)}),
    Case("DrawBoundingBoxes", "boxes of five numbers", {"images": f32(1, 4, 4, 3), "boxes": f32(1, 1, 5)}),
    Case("Fill", "negative shape", {"dims": i32(-1), "value": np.float32(1)}),
    Case("Fill", "huge shape", {"dims": i64(HUGE, HUGE), "value": np.float32(1)}),
    Case("Reshape", "other number of elements", {"tensor": f32(4), "shape": i32(3, -1)}),
    Case("BroadcastTo", "smaller shape", {"input": f32(4), "shape": i32(2)}),
    Case("QuantizeAndDequantizeV3", "axis-free limits of two elements", {
        "input": f32(2), "input_min": f32(2), "input_max": f32(2), "num_bits": np.int32(8)}),
    Case("QuantizeAndDequantizeV3", "many bits", {
        "input": f32(2), "input_min": np.float32(0), "input_max": np.float32(1), "num_bits": np.int32(100)}),
    Case("QuantizeV2", "limits without elements", {
        "input": f32(2), "min_range": f32(0), "max_range": f32(0)}, {"T": "quint8"}),
    Case("QuantizedReshape", "limits without elements", {
        "tensor": np.ones((4,), np.uint8), "shape": i32(2, 2), "input_min": f32(0), "input_max": f32(0)},
        {"T": "quint8"}),
    Case("QuantizedMaxPool", "limits without elements", {
        "input": np.ones((1, 4, 4, 1), np.uint8), "min_input": f32(0), "max_input": f32(0)}, {**POOL, "T": "quint8"}),
    Case("Dilation2DBackpropInput", "other shapes", {
        "input": f32(1, 4, 4, 1), "filter": f32(2, 2, 1), "out_backprop": f32(1, 9, 9, 1)},
        {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}),
    Case("AdjustContrastv2", "factor that is no scalar", {"images": f32(2, 2, 3), "contrast_factor": f32(2)}),
    Case("AudioSummaryV2", "rate that is no scalar", {
        "tag": np.array(b"a", object), "tensor": f32(1, 4), "sample_rate": f32(2)}),
    Case("HistogramSummary", "not finite", {"tag": np.array(b"a", object), "values": np.array([np.nan], np.float32)}),
    Case("ImageSummary", "tensor of rank 2", {"tag": np.array(b"a", object), "tensor": f32(2, 2)}),
    Case("LearnedUnigramCandidateSampler", "labels out of range", {"true_classes": np.array([[99]], np.int64)},
        {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 5}),
    Case("GetSessionTensor", "handle of nothing", {"handle": np.array(b"no handle", object)}, {"dtype": "float32"}),
    Case("Unbatch", "scalar index", {
        "batched_tensor": f32(2), "batch_index": np.int64(1), "id": np.int64(1)}, {"timeout_micros": 1}),
]  # fmt: skip
