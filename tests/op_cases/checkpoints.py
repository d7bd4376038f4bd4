"""Ops that read and write files: tests/train has tests of their own. Names of shards are plain strings."""

from __future__ import annotations

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere

covered_elsewhere(
    "reads or writes files; see tests/train/test_tensor_bundle.py", "SaveV2", "RestoreV2", "MergeV2Checkpoints"
)
covered_elsewhere(
    "reads or writes files; see tests/train/test_old_checkpoints.py", "Save", "SaveSlices", "Restore", "RestoreSlice"
)


def _int32(value: int) -> np.ndarray:
    return np.array(value, np.int32)


_NAME = np.array(b"model", object)
case(
    "ShardedFilename",
    lambda basename, shard, shards: tf.raw_ops.ShardedFilename(basename=basename, shard=shard, num_shards=shards),
    lambda basename, shard, shards: np.array(b"%s-%05d-of-%05d" % (basename.item(), shard, shards), object),
    samples=[Args(_NAME, _int32(0), _int32(1)), Args(_NAME, _int32(12), _int32(345))],
    dtypes="float32",
    bad=[Bad(Args(_NAME, np.zeros(2, np.int32), _int32(1)), match="2")],
)
case(
    "ShardedFilespec",
    lambda basename, shards: tf.raw_ops.ShardedFilespec(basename=basename, num_shards=shards),
    lambda basename, shards: np.array(b"%s-?????-of-%05d" % (basename.item(), shards), object),
    samples=[Args(_NAME, _int32(1)), Args(_NAME, _int32(345))],
    dtypes="float32",
    bad=[Bad(Args(_NAME, np.zeros(3, np.int32)), match="3")],
)
