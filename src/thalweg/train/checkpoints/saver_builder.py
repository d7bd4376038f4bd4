"""Builds the nodes of a Saver: under the names that TensorFlow gives them, so that MetaGraphs move both ways."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from thalweg.graph.apply import apply_list, apply_one, apply_op
from thalweg.graph.default_graph import control_dependencies, device, get_default_graph, name_scope
from thalweg.graph.device_spec import canonical
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import constant, group
from thalweg.state.saveable import SaveableObject, SaveSpec
from thalweg.train.checkpoints.saveable import EmbeddingSaveable, cpu_of, saveables_from

# The class has an attribute of the same name.
Saveables: TypeAlias = Sequence[SaveableObject]
PerDevice: TypeAlias = list[tuple[str, list[SaveableObject]]]

# SaverDef.V1 and V2.
_V1, _V2 = 1, 2
# Savers that write into an object store write the parts beside the whole.
_REMOTE = r"^s3://.*"


class BaseSaverBuilder:
    """Builds the nodes that save and restore. Subclasses may override `save_op` and `restore_op`."""

    SaveSpec = SaveSpec
    SaveableObject = SaveableObject

    def __init__(self, write_version: int = 2) -> None:
        """Takes the version of the format to write: SaverDef.V2, or V1, that of TensorFlow before 0.12."""
        if write_version not in (_V1, _V2):
            raise ValueError(f"write_version must be SaverDef.V1 or SaverDef.V2, got {write_version}.")
        self._write_version = write_version

    def save_op(self, filename_tensor: Tensor, saveables: Saveables) -> Operation:
        """The operation that saves."""
        specs = [spec for saveable in saveables for spec in saveable.specs]
        return apply_op(
            "SaveV2" if self._write_version == _V2 else "SaveSlices",
            filename_tensor,
            [spec.name for spec in specs],
            [spec.slice_spec for spec in specs],
            [spec.tensor for spec in specs],
        )

    def bulk_restore(
        self,
        filename_tensor: Tensor,
        saveables: Saveables,
        preferred_shard: int,
        restore_sequentially: bool,
    ) -> list[Tensor]:
        """The restored tensors of several saveables, read by one operation."""
        del preferred_shard, restore_sequentially
        specs = [spec for saveable in saveables for spec in saveable.specs]
        with device(cpu_of(saveables[0].device)):
            return list(
                apply_list(
                    "RestoreV2",
                    filename_tensor,
                    [spec.name for spec in specs],
                    [spec.slice_spec for spec in specs],
                    dtypes=[spec.dtype.base_dtype for spec in specs],
                )
            )

    def sharded_filename(self, filename_tensor: Tensor, shard: int, num_shards: Tensor) -> Tensor:
        """The prefix of one shard."""
        return apply_one("ShardedFilename", filename_tensor, shard, num_shards)

    def _add_save_ops(self, filename_tensor: Tensor, saveables: Saveables) -> Tensor:
        save = self.save_op(filename_tensor, saveables)
        return _with_dependencies([save], filename_tensor)

    def _add_sharded_save_ops(self, prefix: Tensor, per_device: PerDevice) -> Tensor:
        """Each device writes a part of its own, and then one op merges the parts."""
        if self._write_version == _V1:
            return self._add_sharded_old_format(prefix, per_device)
        with device("/device:CPU:*"):
            remote = apply_one("StaticRegexFullMatch", prefix, pattern=_REMOTE)
            # A name of its own: two savers of one prefix must not write into each other's parts.
            temporary = f"_temp_{os.urandom(16).hex()}/part"
            suffix = apply_one("Select", remote, constant(".part"), constant(temporary))
            parts = apply_one("StringJoin", [prefix, suffix])
        num_shards = constant(len(per_device), name="num_shards")
        names: list[Tensor] = []
        saved: list[Tensor] = []
        last = ""
        for shard, (where, saveables) in enumerate(per_device):
            last = cpu_of(where)
            with device(last):
                names.append(self.sharded_filename(parts, shard, num_shards))
                saved.append(self._add_save_ops(names[-1], saveables))
        with control_dependencies(saved), device(last):
            merge = apply_op("MergeV2Checkpoints", names, prefix, delete_old_dirs=True)
            with control_dependencies([merge]):
                return apply_one("Identity", prefix)

    def _add_sharded_old_format(self, prefix: Tensor, per_device: PerDevice) -> Tensor:
        """Each device writes a file of its own; the pattern that fits all of them names the checkpoint."""
        num_shards = constant(len(per_device), name="num_shards")
        saved: list[Tensor] = []
        for shard, (where, saveables) in enumerate(per_device):
            with device(cpu_of(where)):
                saved.append(self._add_save_ops(self.sharded_filename(prefix, shard, num_shards), saveables))
        with control_dependencies(saved):
            return apply_one("ShardedFilespec", prefix, num_shards)

    def _add_restore_ops(
        self,
        filename_tensor: Tensor,
        saveables: Saveables,
        restore_sequentially: bool,
        reshape: bool,
        preferred_shard: int = -1,
        name: str = "restore_all",
    ) -> Operation:
        # Rows of embedding variables are in files of their own.
        ordinary = [saveable for saveable in saveables if not isinstance(saveable, EmbeddingSaveable)]
        tensors: Iterator[Tensor] = iter(())
        if ordinary:
            tensors = iter(self.bulk_restore(filename_tensor, ordinary, preferred_shard, restore_sequentially))
        assigned: list[Operation] = []
        for saveable in saveables:
            if isinstance(saveable, EmbeddingSaveable):
                with control_dependencies(assigned[-1:] if restore_sequentially else []):
                    assigned.append(saveable.restore_from(filename_tensor))
                continue
            shapes = None
            if reshape:
                shapes = []
                for spec in saveable.specs:
                    shape = spec.tensor.shape
                    shapes.append(shape.as_list() if shape.is_fully_defined() else apply_one("Shape", spec.tensor))
            after = assigned[-1:] if restore_sequentially else []
            with control_dependencies(after):
                assigned.append(saveable.restore([next(tensors) for _ in saveable.specs], shapes))
        return group(*assigned, name=name)

    def _add_sharded_restore_ops(
        self,
        filename_tensor: Tensor,
        per_device: PerDevice,
        restore_sequentially: bool,
        reshape: bool,
    ) -> Operation:
        shards = []
        for shard, (where, saveables) in enumerate(per_device):
            with device(where):
                shards.append(
                    self._add_restore_ops(
                        filename_tensor, saveables, restore_sequentially, reshape, shard, "restore_shard"
                    )
                )
        return group(*shards, name="restore_all")

    def build(
        self,
        var_list: Any,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        filename: str | None = "model",
    ) -> Any:
        """Adds the nodes to the default graph; returns the SaverDef that names them."""
        from tensorboard.compat.proto.saver_pb2 import SaverDef  # Start-up time: protobuf is slow to import.

        saveables = saveables_from(var_list)
        # State outlives the branch or loop in which a program happens to make the Saver.
        with (
            get_default_graph().control_dependencies(None),
            name_scope(name, "save", [saveable.op for saveable in saveables if isinstance(saveable.op, Tensor)]),
        ):
            given = apply_one("PlaceholderWithDefault", filename or "model", shape=[], name="filename")
            prefix = apply_one("PlaceholderWithDefault", given, shape=[], name="Const")
            for saveable in saveables:
                if isinstance(saveable, EmbeddingSaveable):
                    saveable.write_to(prefix)
            if sharded:
                per_device = _by_device(saveables)
                save_tensor = self._add_sharded_save_ops(prefix, per_device)
                restore = self._add_sharded_restore_ops(prefix, per_device, restore_sequentially, reshape)
            else:
                save_tensor = self._add_save_ops(prefix, saveables)
                restore = self._add_restore_ops(prefix, saveables, restore_sequentially, reshape)
        return SaverDef(
            filename_tensor_name=prefix.name,
            save_tensor_name=save_tensor.name,
            restore_op_name=restore.name,
            max_to_keep=max_to_keep or 0,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._write_version,
        )


class BulkSaverBuilder(BaseSaverBuilder):
    """The builder that savers use: one operation reads all tensors of a device."""


def _with_dependencies(dependencies: list[Any], tensor: Tensor) -> Tensor:
    """The tensor, with control dependencies, on its own device."""
    with control_dependencies(dependencies), get_default_graph().colocate_with(tensor):
        return apply_one("Identity", tensor, name="control_dependency")


def _by_device(saveables: Saveables) -> PerDevice:
    groups: dict[str, list[Any]] = {}
    for saveable in saveables:
        groups.setdefault(canonical(saveable.device), []).append(saveable)
    return sorted(groups.items())
