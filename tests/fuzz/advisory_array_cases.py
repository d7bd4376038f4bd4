"""More calls of the kinds in `advisory_cases.py`: arrays, sparse and ragged tensors, linear algebra, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.advisory_cases import HUGE, POOL, Case, f32, i32, i64


def c64(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.complex64)


def pairs(*rows: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array(rows, np.int64)


I0, F0 = np.int32(0), np.float32(0)
NONE = i64()
SPARSE = {"input_indices": pairs((9, 9)), "input_values": f32(1), "input_shape": i64(2, 2)}
SETS = {"set_operation": "intersection"}
VALID = {"padding": "VALID"}
CUBE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], **VALID}
SEED = {"seed": i64(1, 2)}
COUNT = {"binary_output": False}

# Op, what is wrong, inputs, attributes.
REFUSED = [
    ("Concat", "axis out of range", {"concat_dim": np.int32(9), "values": [f32(2), f32(2)]}, {}),
    ("Concat", "other shapes", {"concat_dim": I0, "values": [f32(2, 3), f32(2, 4)]}, {}),
    ("ConcatV2", "other ranks", {"values": [f32(2, 2), f32(2)], "axis": I0}, {}),
    ("ConcatOffset", "axis out of range", {"concat_dim": np.int32(5), "shape": [i32(2, 2), i32(2, 2)]}, {}),
    ("ConcatOffset", "shapes of other lengths", {"concat_dim": I0, "shape": [i32(2, 2), i32(2)]}, {}),
    ("Pack", "other shapes", {"values": [f32(2), f32(3)]}, {}),
    ("Pack", "axis out of range", {"values": [f32(2), f32(2)]}, {"axis": 7}),
    ("Unpack", "other number", {"value": f32(3)}, {"num": 2}),
    ("Unpack", "scalar", {"value": np.float32(1)}, {"num": 1}),
    ("ParallelConcat", "other shape", {"values": [f32(1, 2), f32(1, 2)]}, {"shape": [2, 5]}),
    ("InvertPermutation", "value twice", {"x": i32(0, 0)}, {}),
    ("InvertPermutation", "value out of range", {"x": i32(5, 1)}, {}),
    ("InvertPermutation", "negative value", {"x": i32(-1, 0)}, {}),
    ("ListDiff", "matrices", {"x": f32(2, 2), "y": f32(2)}, {}),
    ("UniqueV2", "axis out of range", {"x": f32(2), "axis": i64(5)}, {}),
    ("UniqueV2", "two axes", {"x": f32(2, 2), "axis": i64(0, 1)}, {}),
    ("UniqueWithCountsV2", "negative axis out of range", {"x": f32(2), "axis": i64(-5)}, {}),
    ("BroadcastArgs", "shapes that do not fit", {"s0": i32(2), "s1": i32(3)}, {}),
    ("BroadcastArgs", "matrices", {"s0": np.ones((2, 2), np.int32), "s1": i32(2)}, {}),
    ("BroadcastGradientArgs", "shapes that do not fit", {"s0": i32(2), "s1": i32(3)}, {}),
    ("BroadcastTo", "negative shape", {"input": f32(1), "shape": i32(-2)}, {}),
    ("BroadcastTo", "huge shape", {"input": f32(1), "shape": i64(HUGE, HUGE)}, {}),
    ("Slice", "size beyond the tensor", {"input": f32(2), "begin": i32(1), "size": i32(5)}, {}),
    ("Slice", "negative begin", {"input": f32(2), "begin": i32(-1), "size": i32(1)}, {}),
    ("Slice", "other ranks", {"input": f32(2), "begin": i32(0, 0), "size": i32(1, 1)}, {}),
    ("StridedSlice", "other lengths", {"input": f32(2), "begin": i32(0, 0), "end": i32(1), "strides": i32(1)}, {}),
    ("StridedSlice", "more places than dimensions", {
        "input": f32(2), "begin": i32(0, 0), "end": i32(1, 1), "strides": i32(1, 1)}, {}),
    ("StridedSlice", "place out of range", {
        "input": f32(2), "begin": i32(9), "end": i32(10), "strides": i32(1)}, {"shrink_axis_mask": 1}),
    ("StridedSlice", "two ellipses", {
        "input": f32(2, 2), "begin": i32(0, 0), "end": i32(0, 0), "strides": i32(1, 1)}, {"ellipsis_mask": 3}),
    ("StridedSliceGrad", "gradient of another shape", {
        "shape": i32(4), "begin": i32(0), "end": i32(2), "strides": i32(1), "dy": f32(9)}, {}),
    ("StridedSliceGrad", "negative shape", {
        "shape": i32(-4), "begin": i32(0), "end": i32(2), "strides": i32(1), "dy": f32(2)}, {}),
    ("TensorStridedSliceUpdate", "value of another shape", {
        "input": f32(4), "begin": i32(0), "end": i32(2), "strides": i32(1), "value": f32(7)}, {}),
    ("Squeeze", "axis out of range", {"input": f32(1)}, {"squeeze_dims": [5]}),
    ("Squeeze", "axis of two", {"input": f32(2)}, {"squeeze_dims": [0]}),
    ("ExpandDims", "axis out of range", {"input": f32(1), "dim": np.int32(9)}, {}),
    ("ExpandDims", "two axes", {"input": f32(1), "dim": i32(0, 0)}, {}),
    ("Roll", "scalar", {"input": np.float32(1), "shift": I0, "axis": I0}, {}),
    ("Roll", "axis out of range", {"input": f32(3), "shift": np.int32(1), "axis": np.int32(4)}, {}),
    ("Roll", "other lengths", {"input": f32(3), "shift": i32(1, 2), "axis": i32(0)}, {}),
    ("Transpose", "axis out of range", {"x": f32(2, 2), "perm": i32(0, 9)}, {}),
    ("Transpose", "other length", {"x": f32(2, 2), "perm": i32(0)}, {}),
    ("Gather", "index out of range", {"params": f32(2), "indices": i32(5)}, {}),
    ("GatherV2", "axis out of range", {"params": f32(2), "indices": i32(0), "axis": np.int32(9)}, {}),
    ("GatherV2", "batch dimensions beyond the indices", {
        "params": f32(2, 2), "indices": i32(0), "axis": np.int32(1)}, {"batch_dims": 7}),
    ("GatherNd", "negative index", {"params": f32(2), "indices": np.array([[-5]], np.int32)}, {}),
    ("OneHot", "negative depth", {"indices": i32(1), "depth": np.int32(-1), "on_value": F0, "off_value": F0}, {}),
    ("OneHot", "values that are no scalars", {
        "indices": i32(1), "depth": np.int32(2), "on_value": f32(2), "off_value": F0}, {}),
    ("OneHot", "huge depth", {
        "indices": np.zeros(1 << 12, np.int32), "depth": np.int32(2**31 - 1), "on_value": F0, "off_value": F0}, {}),
    ("Cumsum", "axis out of range", {"x": f32(2), "axis": np.int32(9)}, {}),
    ("Cumprod", "two axes", {"x": f32(2, 2), "axis": i32(0, 1)}, {}),
    ("LinSpace", "no elements", {"start": F0, "stop": F0, "num": I0}, {}),
    ("LinSpace", "ends that are no scalars", {"start": f32(2), "stop": F0, "num": np.int32(2)}, {}),
    ("LinSpace", "huge number", {"start": F0, "stop": F0, "num": np.int64(1 << 60)}, {}),
    ("Fill", "value that is no scalar", {"dims": i32(2), "value": f32(2)}, {}),
    ("Tile", "other length", {"input": f32(2, 2), "multiples": i32(1)}, {}),
    ("Pad", "other number of rows", {"input": f32(2, 2), "paddings": np.zeros((1, 2), np.int32)}, {}),
    ("PadV2", "value that is no scalar", {
        "input": f32(2), "paddings": np.ones((1, 2), np.int32), "constant_values": f32(3)}, {}),
    ("Pad", "huge padding", {"input": f32(2), "paddings": pairs((HUGE, 1 << 62))}, {}),
    ("MirrorPad", "negative padding", {"input": f32(3), "paddings": np.array([[-1, 0]], np.int32)},
     {"mode": "SYMMETRIC"}),
    ("MirrorPadGrad", "negative padding", {"input": f32(3), "paddings": np.array([[-1, 0]], np.int32)},
     {"mode": "SYMMETRIC"}),
    ("SpaceToDepth", "size that does not fit", {"input": f32(1, 3, 3, 1)}, {"block_size": 2}),
    ("DepthToSpace", "depth that does not fit", {"input": f32(1, 2, 2, 3)}, {"block_size": 2}),
    ("SpaceToBatch", "paddings of another shape", {
        "input": f32(1, 2, 2, 1), "paddings": np.zeros((1, 2), np.int32)}, {"block_size": 2}),
    ("SpaceToBatchND", "negative padding", {
        "input": f32(1, 2, 2, 1), "block_shape": i32(2, 2), "paddings": np.full((2, 2), -2, np.int32)}, {}),
    ("SpaceToBatchND", "huge block", {
        "input": f32(1, 2, 2, 1), "block_shape": i64(HUGE, HUGE), "paddings": np.zeros((2, 2), np.int64)}, {}),
    ("BatchToSpace", "crops of another shape", {"input": f32(4, 1, 1, 1), "crops": np.zeros((3, 2), np.int32)},
     {"block_size": 2}),
    ("BatchToSpaceND", "negative crops", {
        "input": f32(4, 1, 1, 1), "block_shape": i32(2, 2), "crops": np.full((2, 2), -1, np.int32)}, {}),
    ("BatchToSpaceND", "block of zero", {
        "input": f32(4, 1, 1, 1), "block_shape": i32(0, 2), "crops": np.zeros((2, 2), np.int32)}, {}),
    ("DynamicPartition", "partition out of range", {"data": f32(2), "partitions": i32(0, 7)}, {"num_partitions": 2}),
    ("DynamicPartition", "partitions of another length", {"data": f32(2), "partitions": i32(0)},
     {"num_partitions": 2}),
    ("ParallelDynamicStitch", "negative index", {"indices": [i32(-5)], "data": [f32(1)]}, {}),
    ("DynamicStitch", "huge index", {"indices": [i32(2**31 - 1)], "data": [f32(1, 1 << 12)]}, {}),
    ("TensorScatterUpdate", "index out of range", {
        "tensor": f32(2), "indices": np.array([[9]], np.int32), "updates": f32(1)}, {}),
    ("TensorScatterAdd", "updates of another shape", {
        "tensor": f32(2, 2), "indices": np.array([[0]], np.int32), "updates": f32(1, 5)}, {}),
    ("TensorScatterMax", "indices deeper than the tensor", {
        "tensor": f32(2), "indices": np.zeros((1, 4), np.int32), "updates": f32(1)}, {}),
    ("ScatterNd", "negative shape", {"indices": np.array([[0]], np.int32), "updates": f32(1), "shape": i32(-2)}, {}),
    ("ScatterNd", "no dimensions", {"indices": np.zeros((1, 0), np.int32), "updates": f32(3), "shape": i32()}, {}),
    ("InplaceUpdate", "values of another rank", {"x": f32(2, 2), "i": i32(0), "v": f32(2)}, {}),
    ("InplaceAdd", "values of another shape", {"x": f32(2, 2), "i": i32(0), "v": f32(1, 5)}, {}),
    ("Bitcast", "last dimension that does not fit", {"input": f32(3)}, {"type": np.float64}),
    ("CompareAndBitpack", "not a multiple of eight", {"input": f32(7), "threshold": F0}, {}),
    ("CompareAndBitpack", "scalar", {"input": np.float32(1), "threshold": F0}, {}),
    ("CompareAndBitpack", "threshold that is no scalar", {"input": f32(8), "threshold": f32(2)}, {}),
    ("Bucketize", "boundaries out of order", {"input": f32(2)}, {"boundaries": [3.0, 1.0]}),
    ("SegmentMax", "other lengths", {"data": f32(3), "segment_ids": i32(0)}, {}),
    ("SegmentMean", "matrix of segments", {"data": f32(2, 2), "segment_ids": np.zeros((2, 2), np.int32)}, {}),
    ("SegmentMax", "largest segment", {"data": f32(1), "segment_ids": i64(2**63 - 1)}, {}),
    ("SparseSegmentSqrtNWithNumSegments", "largest segment", {
        "data": f32(3), "indices": i32(0, 1), "segment_ids": i64(0, 2**63 - 1), "num_segments": np.int32(5)}, {}),
    ("SparseSegmentSum", "largest segment", {"data": f32(3), "indices": i32(0), "segment_ids": i64(2**63 - 1)}, {}),
    ("UnsortedSegmentMax", "segment out of range", {
        "data": f32(2), "segment_ids": i32(0, 9), "num_segments": np.int32(2)}, {}),
    ("UnsortedSegmentProd", "number that is no scalar", {
        "data": f32(2), "segment_ids": i32(0, 0), "num_segments": i32(1, 1)}, {}),
    ("SparseSegmentSum", "index out of range", {"data": f32(3), "indices": i32(9), "segment_ids": i32(0)}, {}),
    ("SparseSegmentMean", "negative index", {"data": f32(3), "indices": i32(-1), "segment_ids": i32(0)}, {}),
    ("SparseSegmentSqrtN", "other lengths", {"data": f32(3), "indices": i32(0, 1), "segment_ids": i32(0)}, {}),
    ("SparseSegmentSumWithNumSegments", "negative number", {
        "data": f32(3), "indices": i32(0), "segment_ids": i32(0), "num_segments": np.int32(-1)}, {}),
    ("SparseSegmentSumWithNumSegments", "segment beyond the number", {
        "data": f32(3), "indices": i32(0), "segment_ids": i32(5), "num_segments": np.int32(2)}, {}),
    ("SparseSegmentSqrtNGrad", "index beyond the size", {
        "grad": f32(1), "indices": i32(9), "segment_ids": i32(0), "output_dim0": np.int32(2)}, {}),
    ("SparseSegmentMeanGrad", "segment beyond the gradient", {
        "grad": f32(1), "indices": i32(0), "segment_ids": i32(5), "output_dim0": np.int32(2)}, {}),
    ("SparseReduceMax", "index out of range", {**SPARSE, "reduction_axes": i32(0)}, {}),
    ("SparseReduceMaxSparse", "axis out of range", {**SPARSE, "reduction_axes": i32(7)}, {}),
    ("SparseReduceSum", "empty shape", {
        "input_indices": np.zeros((0, 0), np.int64), "input_values": f32(0), "input_shape": NONE,
        "reduction_axes": i32(3)}, {}),
    ("SparseReorder", "negative index", {
        "input_indices": pairs((-1, 0)), "input_values": f32(1), "input_shape": i64(2, 2)}, {}),
    ("SparseReshape", "shape that overflows", {
        "input_indices": pairs((0, 0)), "input_shape": i64(HUGE, HUGE), "new_shape": i64(-1)}, {}),
    ("SparseReshape", "negative shape", {
        "input_indices": pairs((0, 0)), "input_shape": i64(2, 2), "new_shape": i64(-2, -2)}, {}),
    ("SparseReshape", "matrix as shape", {
        "input_indices": pairs((0, 0)), "input_shape": pairs((2, 2)), "new_shape": i64(4)}, {}),
    ("SparseSlice", "negative size", {
        "indices": pairs((0, 0)), "values": f32(1), "shape": i64(2, 2), "start": i64(0, 0), "size": i64(-1, 1)}, {}),
    ("SparseSliceGrad", "other ranks", {
        "backprop_val_grad": f32(1), "input_indices": pairs((0, 0)), "input_start": i64(0), "output_indices":
        pairs((0, 0))}, {}),
    ("SparseSplit", "more parts than rows", {
        "split_dim": np.int64(0), "indices": pairs((0, 0)), "values": f32(1), "shape": i64(2, 2)}, {"num_split": 9}),
    ("SparseConcat", "axis out of range", {
        "indices": [pairs((0, 0))] * 2, "values": [f32(1)] * 2, "shapes": [i64(2, 2)] * 2}, {"concat_dim": 9}),
    ("SparseConcat", "other shapes", {
        "indices": [pairs((0, 0))] * 2, "values": [f32(1)] * 2, "shapes": [i64(2, 2), i64(2, 5)]}, {"concat_dim": 0}),
    ("SparseAddGrad", "indices of other widths", {
        "backprop_val_grad": f32(1), "a_indices": pairs((0, 0)), "b_indices": pairs((0, 0)),
        "sum_indices": pairs((0, 0, 0))}, {}),
    ("SparseSoftmax", "vector", {"sp_indices": pairs((0,)), "sp_values": f32(1), "sp_shape": i64(2)}, {}),
    ("SparseSoftmax", "index out of range", {"sp_indices": pairs((9, 0)), "sp_values": f32(1), "sp_shape": i64(2, 2)},
     {}),
    ("SparseSparseMaximum", "other shapes", {
        "a_indices": pairs((0, 0)), "a_values": f32(1), "a_shape": i64(2, 2), "b_indices": pairs((0, 0)),
        "b_values": f32(1), "b_shape": i64(3, 3)}, {}),
    ("SparseSparseMinimum", "values of another length", {
        "a_indices": pairs((0, 0)), "a_values": f32(5), "a_shape": i64(2, 2), "b_indices": pairs((0, 0)),
        "b_values": f32(1), "b_shape": i64(2, 2)}, {}),
    ("SparseDenseCwiseAdd", "dense of another rank", {
        "sp_indices": pairs((0, 0)), "sp_values": f32(1), "sp_shape": i64(2, 2), "dense": f32(2, 2, 2)}, {}),
    ("SparseTensorDenseMatMul", "negative shape", {
        "a_indices": pairs((0, 0)), "a_values": f32(1), "a_shape": i64(-2, 2), "b": f32(2, 2)}, {}),
    ("SparseTensorDenseMatMul", "values of another length", {
        "a_indices": pairs((0, 0)), "a_values": f32(4), "a_shape": i64(2, 2), "b": f32(2, 2)}, {}),
    ("SparseFillEmptyRows", "values of another length", {
        "indices": pairs((0, 0)), "values": f32(3), "dense_shape": i64(2, 2), "default_value": F0}, {}),
    ("SparseFillEmptyRows", "default that is no scalar", {
        "indices": pairs((0, 0)), "values": f32(1), "dense_shape": i64(2, 2), "default_value": f32(2)}, {}),
    ("SparseFillEmptyRows", "no dimensions", {
        "indices": np.zeros((1, 0), np.int64), "values": f32(1), "dense_shape": NONE, "default_value": F0}, {}),
    ("SparseToDense", "values of another length", {
        "sparse_indices": pairs((0,), (1,)), "output_shape": i64(2), "sparse_values": f32(5), "default_value": F0}, {}),
    ("SparseToDense", "negative shape", {
        "sparse_indices": pairs((0,)), "output_shape": i64(-2), "sparse_values": F0, "default_value": F0}, {}),
    ("SparseBincount", "index out of range", {
        "indices": pairs((9, 0)), "values": i32(1), "dense_shape": i64(2, 2), "size": np.int32(3), "weights": f32(0)},
     {}),
    ("SparseBincount", "indices of another length", {
        "indices": pairs((0, 0), (1, 0)), "values": i32(1), "dense_shape": i64(2, 2), "size": np.int32(3),
        "weights": f32(0)}, {}),
    ("SparseCountSparseOutput", "negative value", {
        "indices": pairs((0, 0)), "values": i32(-1), "dense_shape": i64(2, 2), "weights": f32(0)}, COUNT),
    ("SparseCountSparseOutput", "row out of range", {
        "indices": pairs((7, 0)), "values": i32(1), "dense_shape": i64(2, 2), "weights": f32(0)}, COUNT),
    ("SparseCountSparseOutput", "weights of another length", {
        "indices": pairs((0, 0)), "values": i32(1), "dense_shape": i64(2, 2), "weights": f32(5)}, COUNT),
    ("DenseCountSparseOutput", "weights of another shape", {"values": i32(1, 2), "weights": f32(7)}, COUNT),
    ("DenseCountSparseOutput", "negative value", {"values": i32(-1, 2), "weights": f32(0)}, COUNT),
    ("DenseBincount", "negative size", {"input": i32(1), "size": np.int32(-3), "weights": f32(0)}, {}),
    ("DenseBincount", "size that is no scalar", {"input": i32(1), "size": i32(3, 3), "weights": f32(0)}, {}),
    ("DenseBincount", "rank 3", {"input": np.ones((1, 1, 1), np.int32), "size": np.int32(3), "weights": f32(0)}, {}),
    ("RaggedBincount", "splits that do not begin at zero", {
        "splits": i64(5, 6), "values": i32(1), "size": np.int32(3), "weights": f32(0)}, {}),
    ("RaggedBincount", "splits beyond the values", {
        "splits": i64(0, 99), "values": i32(1), "size": np.int32(3), "weights": f32(0)}, {}),
    ("RaggedBincount", "no splits", {"splits": NONE, "values": i32(1), "size": np.int32(3), "weights": f32(0)}, {}),
    ("RaggedCountSparseOutput", "no splits", {"splits": NONE, "values": i32(1), "weights": f32(0)}, COUNT),
    ("RaggedCountSparseOutput", "splits beyond the values", {
        "splits": i64(0, 9), "values": i32(1), "weights": f32(0)}, COUNT),
    ("RaggedRange", "step of zero", {"starts": i32(0), "limits": i32(5), "deltas": i32(0)}, {}),
    ("RaggedRange", "too many elements", {"starts": i64(0), "limits": i64(1 << 62), "deltas": i64(1)}, {}),
    ("RaggedRange", "other lengths", {"starts": i32(0, 1), "limits": i32(5, 6, 7), "deltas": i32(1)}, {}),
    ("RaggedGather", "index out of range", {
        "params_nested_splits": [i64(0, 1)], "params_dense_values": f32(1), "indices": i32(9)},
     {"OUTPUT_RAGGED_RANK": 1}),
    ("RaggedGather", "splits beyond the values", {
        "params_nested_splits": [i64(0, 9)], "params_dense_values": f32(1), "indices": i32(0)},
     {"OUTPUT_RAGGED_RANK": 1}),
    ("RaggedGather", "scalar values", {
        "params_nested_splits": [i64(0, 1)], "params_dense_values": np.float32(1), "indices": i32(0)},
     {"OUTPUT_RAGGED_RANK": 1}),
    ("RaggedTensorToSparse", "no splits", {"rt_nested_splits": [NONE], "rt_dense_values": f32(1)}, {}),
    ("RaggedTensorToSparse", "splits that fall", {"rt_nested_splits": [i64(0, 5, 1)], "rt_dense_values": f32(1)}, {}),
    ("RaggedTensorToSparse", "splits beyond the values", {
        "rt_nested_splits": [i64(0, 9)], "rt_dense_values": f32(1)}, {}),
    ("RaggedTensorToTensor", "splits beyond the values", {
        "shape": i64(-1, -1), "values": f32(1), "default_value": F0, "row_partition_tensors": [i64(0, 9)]},
     {"row_partition_types": ["ROW_SPLITS"]}),
    ("RaggedTensorToTensor", "no partition", {
        "shape": i64(2, 2), "values": f32(1), "default_value": F0, "row_partition_tensors": [NONE]},
     {"row_partition_types": ["ROW_SPLITS"]}),
    ("RaggedTensorToTensor", "row out of range", {
        "shape": i64(2, 2), "values": f32(1), "default_value": F0, "row_partition_tensors": [np.int64(1), i64(9)]},
     {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}),
    ("RaggedTensorToTensor", "kind of partition that does not exist", {
        "shape": i64(2, 2), "values": f32(1), "default_value": F0, "row_partition_tensors": [i64(0, 1)]},
     {"row_partition_types": ["NOTHING"]}),
    ("DenseToDenseSetOperation", "other ranks", {"set1": i64(1, 2), "set2": pairs((1, 2))}, SETS),
    ("DenseToSparseSetOperation", "index out of range", {
        "set1": pairs((1, 2)), "set2_indices": pairs((9, 9)), "set2_values": i64(1), "set2_shape": i64(1, 2)}, SETS),
    ("SparseToSparseSetOperation", "indices of another length", {
        "set1_indices": pairs((0, 0), (0, 1)), "set1_values": i64(1), "set1_shape": i64(1, 2),
        "set2_indices": pairs((0, 0)), "set2_values": i64(1), "set2_shape": i64(1, 2)}, SETS),
    ("SparseToSparseSetOperation", "indices out of range", {
        "set1_indices": pairs((7, 0)), "set1_values": i64(1), "set1_shape": i64(1, 2),
        "set2_indices": pairs((0, 0)), "set2_values": i64(1), "set2_shape": i64(1, 2)}, SETS),
    ("SetSize", "index out of range", {"set_indices": pairs((9, 9)), "set_values": i64(1), "set_shape": i64(2, 2)}, {}),
    ("MatrixDiagV3", "rows that do not fit", {
        "diagonal": f32(3), "k": I0, "num_rows": np.int32(1), "num_cols": np.int32(1), "padding_value": F0}, {}),
    ("MatrixDiagV2", "diagonals out of order", {
        "diagonal": f32(2, 3), "k": i32(2, 0), "num_rows": np.int32(-1), "num_cols": np.int32(-1),
        "padding_value": F0}, {}),
    ("MatrixDiagV2", "no diagonals", {
        "diagonal": f32(3), "k": i32(), "num_rows": np.int32(-1), "num_cols": np.int32(-1), "padding_value": F0}, {}),
    ("MatrixDiagPartV2", "diagonal out of range", {"input": f32(2, 2), "k": np.int32(9), "padding_value": F0}, {}),
    ("MatrixDiagPartV3", "padding that is no scalar", {"input": f32(2, 2), "k": I0, "padding_value": f32(2)}, {}),
    ("MatrixSetDiagV3", "three diagonals", {"input": f32(2, 2), "diagonal": f32(2), "k": i32(0, 1, 2)}, {}),
    ("MatrixSetDiagV2", "diagonal out of range", {"input": f32(2, 2), "diagonal": f32(2), "k": np.int32(7)}, {}),
    ("MatrixBandPart", "vector", {"input": f32(2), "num_lower": np.int64(0), "num_upper": np.int64(0)}, {}),
    ("MatrixBandPart", "bands that are no scalars", {
        "input": f32(2, 2), "num_lower": i64(0, 0), "num_upper": np.int64(0)}, {}),
    ("MatrixSolve", "other shapes", {"matrix": f32(2, 2), "rhs": f32(3, 1)}, {}),
    ("MatrixSolve", "not square", {"matrix": f32(2, 3), "rhs": f32(2, 1)}, {}),
    ("MatrixSolveLs", "regularizer that is no scalar", {
        "matrix": f32(2, 2), "rhs": f32(2, 1), "l2_regularizer": np.ones(2)}, {}),
    ("MatrixInverse", "not square", {"input": f32(2, 3)}, {}),
    ("Cholesky", "not square", {"input": f32(2, 3)}, {}),
    ("Cholesky", "scalar", {"input": np.float32(1)}, {}),
    ("CholeskyGrad", "other shapes", {"l": f32(2, 2), "grad": f32(3, 3)}, {}),
    ("Lu", "not square", {"input": f32(2, 3)}, {}),
    ("SelfAdjointEigV2", "not square", {"input": f32(2, 3)}, {}),
    ("Svd", "vector", {"input": f32(3)}, {}),
    ("Qr", "scalar", {"input": np.float32(1)}, {}),
    ("TridiagonalMatMul", "other lengths", {
        "superdiag": f32(1, 3), "maindiag": f32(1, 5), "subdiag": f32(1, 3), "rhs": f32(3, 1)}, {}),
    ("TridiagonalSolve", "two diagonals", {"diagonals": f32(2, 3), "rhs": f32(3, 1)}, {}),
    ("MatMul", "other shapes", {"a": f32(2, 3), "b": f32(2, 3)}, {}),
    ("BatchMatMulV2", "batches that do not fit", {"x": f32(2, 2, 2), "y": f32(3, 2, 2)}, {}),
    ("BatchMatMul", "vectors", {"x": f32(2), "y": f32(2)}, {}),
    ("Einsum", "other sizes", {"inputs": [f32(2, 3), f32(4, 2)]}, {"equation": "ij,jk->ik"}),
    ("Einsum", "more labels than dimensions", {"inputs": [f32(2)]}, {"equation": "ij->i"}),
    ("Einsum", "label that comes from nowhere", {"inputs": [f32(2)]}, {"equation": "i->j"}),
    ("Cross", "vectors of four", {"a": f32(4), "b": f32(4)}, {}),
    ("Betainc", "other shapes", {"a": f32(2), "b": f32(3), "x": f32(4)}, {}),
    ("FloorDiv", "division by zero", {"x": i32(1), "y": i32(0)}, {}),
    ("FloorMod", "division by zero", {"x": i64(1), "y": i64(0)}, {}),
    ("Div", "division by zero", {"x": i32(1), "y": i32(0)}, {}),
    ("NthElement", "place out of range", {"input": f32(3), "n": np.int32(9)}, {}),
    ("NthElement", "negative place", {"input": f32(3), "n": np.int32(-1)}, {}),
    ("TopKV2", "negative number", {"input": f32(3), "k": np.int32(-1)}, {}),
    ("TopKV2", "scalar", {"input": np.float32(1), "k": np.int32(1)}, {}),
    ("InTopKV2", "other lengths", {"predictions": f32(2, 3), "targets": i32(0), "k": np.int32(1)}, {}),
    ("SobolSample", "no dimensions", {"dim": I0, "num_results": np.int32(2), "skip": I0}, {}),
    ("SobolSample", "negative number", {"dim": np.int32(2), "num_results": np.int32(-2), "skip": I0}, {}),
    ("Multinomial", "negative number", {"logits": f32(1, 2), "num_samples": np.int32(-1)}, {}),
    ("Multinomial", "no classes", {"logits": f32(1, 0), "num_samples": np.int32(3)}, {}),
    ("Multinomial", "vector", {"logits": f32(3), "num_samples": np.int32(3)}, {}),
    ("StatelessMultinomial", "seed of three", {"logits": f32(1, 2), "num_samples": np.int32(1), "seed": i64(1, 2, 3)},
     {}),
    ("StatelessRandomUniform", "negative shape", {"shape": i32(-1), **SEED}, {}),
    ("StatelessRandomNormal", "seed of one", {"shape": i32(1), "seed": i64(1)}, {}),
    ("StatelessRandomUniformInt", "limits out of order", {
        "shape": i32(2), **SEED, "minval": np.int32(5), "maxval": np.int32(1)}, {}),
    ("StatelessRandomUniformV2", "key of two", {
        "shape": i32(2), "key": np.ones(2, np.uint64), "counter": np.ones(2, np.uint64), "alg": np.int32(1)}, {}),
    ("StatelessRandomUniformV2", "empty counter", {
        "shape": i32(2), "key": np.ones(1, np.uint64), "counter": np.ones(0, np.uint64), "alg": np.int32(1)}, {}),
    ("RandomUniform", "huge shape", {"shape": i64(HUGE, HUGE)}, {"dtype": np.float32}),
    ("RandomStandardNormal", "matrix as shape", {"shape": np.ones((2, 2), np.int32)}, {"dtype": np.float32}),
    ("RandomUniformInt", "limits that are no scalars", {"shape": i32(2), "minval": i32(0, 0), "maxval": np.int32(5)},
     {}),
    ("RandomGamma", "matrix as shape", {"shape": np.ones((2, 2), np.int32), "alpha": f32(1)}, {}),
    ("RandomGammaGrad", "other shapes", {"alpha": f32(2), "sample": f32(3)}, {}),
    ("MaxPool3DGrad", "gradient of another shape", {
        "orig_input": f32(1, 4, 4, 4, 1), "orig_output": f32(1, 2, 2, 2, 1), "grad": f32(1, 9, 9, 9, 1)}, CUBE),
    ("MaxPoolGradGrad", "output of another shape", {
        "orig_input": f32(1, 4, 4, 1), "orig_output": f32(1, 7, 7, 1), "grad": f32(1, 4, 4, 1)}, POOL),
    ("MaxPoolGradV2", "strides of zero", {
        "orig_input": f32(1, 4, 4, 1), "orig_output": f32(1, 2, 2, 1), "grad": f32(1, 2, 2, 1),
        "ksize": i32(1, 2, 2, 1), "strides": i32(1, 0, 0, 1)}, VALID),
    ("MaxPoolV2", "window of zero", {
        "input": f32(1, 4, 4, 1), "ksize": i32(1, 0, 0, 1), "strides": i32(1, 1, 1, 1)}, VALID),
    ("MaxPoolV2", "window of three sizes", {
        "input": f32(1, 4, 4, 1), "ksize": i32(1, 2, 2), "strides": i32(1, 1, 1, 1)}, VALID),
    ("MaxPoolGradGradWithArgmax", "place out of range", {
        "input": f32(1, 4, 4, 1), "grad": f32(1, 4, 4, 1), "argmax": np.full((1, 2, 2, 1), HUGE)}, POOL),
    ("AvgPool", "rank 3", {"value": f32(4, 4, 1)}, POOL),
    ("AvgPool3DGrad", "negative shape", {"orig_input_shape": i32(1, -4, 4, 4, 1), "grad": f32(1, 2, 2, 2, 1)}, CUBE),
    ("AvgPoolGrad", "huge shape", {
        "orig_input_shape": i32(2**30, 2**30, 2**30, 1), "grad": f32(1, 2, 2, 1)}, POOL),
    ("Select", "other shapes", {"condition": np.array([True, False]), "t": f32(2), "e": f32(3)}, {}),
    ("Select", "condition of another length", {"condition": np.ones(3, bool), "t": f32(2), "e": f32(2)}, {}),
    ("IFFT2D", "vector", {"input": c64(3)}, {}),
    ("RFFT2D", "negative length", {"input": f32(4, 4), "fft_length": i32(4, -4)}, {}),
    ("IRFFT3D", "huge length", {"input": c64(1, 1, 1), "fft_length": i32(2**30, 2**30, 2**30)}, {}),
    ("RFFT", "length without elements", {"input": f32(4), "fft_length": i32()}, {}),
]  # fmt: skip

CASES = [Case(op, wrong, inputs, attrs) for op, wrong, inputs, attrs in REFUSED]
