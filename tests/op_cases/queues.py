"""Cases of the ops on queues and their relatives."""

from __future__ import annotations

from tests.op_cases import covered_elsewhere

_QUEUE_OPS = (
    "FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue", "QueueEnqueue", "QueueEnqueueMany",
    "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo", "QueueClose", "QueueIsClosed", "QueueSize",
)  # fmt: skip
_BARRIER_OPS = ("Barrier", "BarrierInsertMany", "BarrierTakeMany", "BarrierClose", "BarrierReadySize",
                "BarrierIncompleteSize")  # fmt: skip
_ACCUMULATOR_OPS = ("ConditionalAccumulator", "AccumulatorApplyGradient", "AccumulatorTakeGradient",
                    "AccumulatorNumAccumulated", "AccumulatorSetGlobalStep")  # fmt: skip
_SPARSE_ACCUMULATOR_OPS = ("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient",
                           "SparseAccumulatorTakeGradient")  # fmt: skip
_MAP_OPS = ("Stage", "Unstage", "Peek", "UnstageNoKey", "Size", "IncompleteSize", "Clear")

covered_elsewhere(
    "they keep state and wait for each other; tests/queues runs them",
    *_QUEUE_OPS,
    *(f"{op}V2" for op in _QUEUE_OPS),
    *_BARRIER_OPS,
    *(f"_Resource{op}" for op in _BARRIER_OPS),
    *_ACCUMULATOR_OPS,
    *(f"Resource{op}" for op in _ACCUMULATOR_OPS),
    *_SPARSE_ACCUMULATOR_OPS,
    *(f"_Resource{op}" for op in _SPARSE_ACCUMULATOR_OPS),
    "_QueuePeek",
    "Stage",
    "Unstage",
    "StagePeek",
    "StageSize",
    "StageClear",
    "RecordInput",
    "MutexV2",
    "MutexLock",
    "ConsumeMutexLock",
    *(f"{family}{op}" for family in ("Map", "OrderedMap") for op in _MAP_OPS),
)
