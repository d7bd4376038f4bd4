"""tf.train.Saver: saves and restores variables, and keeps the latest checkpoints."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from thalweg import errors
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import control_dependencies, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.meta_graph import export_meta_graph
from thalweg.graph.formats.name_scoping import in_name_scope, prepend_name_scope, strip_name_scope
from thalweg.graph.formats.proto_functions import register_proto_function
from thalweg.graph.static_value import constant_value
from thalweg.ops.array.constants import group
from thalweg.platform import logging
from thalweg.platform.file_paths import local_path
from thalweg.platform.remote_files import fetched, is_remote, staged
from thalweg.train.checkpoints.checkpoint_state import (
    checkpoint_exists,
    get_checkpoint_mtimes,
    meta_graph_filename,
    remove_checkpoint,
    remove_orphans,
    write_checkpoint_state,
)
from thalweg.train.checkpoints.restore_errors import explain
from thalweg.train.checkpoints.saveable import all_saveable_objects, saveables_from
from thalweg.train.checkpoints.saver_builder import BulkSaverBuilder
from thalweg.train.checkpoints.step_gate import StepGate, ancestors, gates
from thalweg.train.global_step import global_step as value_of

_NAMES = ("filename_tensor_name", "save_tensor_name", "restore_op_name")


@export("train.Saver")
class Saver:
    """Saves variables to checkpoints and restores them.

    A checkpoint appears in one instant, when all of it is on the disk: a crash leaves the one before as it was.

    Example:
        >>> v = tf.Variable([1.0, 2.0], name="v")
        >>> saver = tf.train.Saver(max_to_keep=3)
        >>> prefix = os.path.join(tempfile.mkdtemp(), "model")
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     path = saver.save(sess, prefix, global_step=7)
        >>> with tf.Session() as sess:
        ...     saver.restore(sess, path)
        ...     print(os.path.basename(path), sess.run(v))
        model-7 [1. 2.]
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = 2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
        consistent: bool = False,
    ) -> None:
        """Adds the nodes that save and restore to the default graph.

        Args:
            var_list: The variables, in a list, or in a dictionary by the names to save them under. All global variables
                and saveable objects if None.
            reshape: Whether variables may be restored from tensors of another shape with as many elements.
            sharded: Whether each device writes a file of its own.
            max_to_keep: How many of the latest checkpoints to keep; 0 or None for all.
            keep_checkpoint_every_n_hours: Besides these, one is kept for good every so many hours.
            name: A name scope for the nodes.
            restore_sequentially: Whether to restore one variable after the other.
            saver_def: A SaverDef: uses nodes that are in the graph already.
            builder: The builder of the nodes; a BulkSaverBuilder if None.
            defer_build: Whether to wait with the nodes until `build` is called.
            allow_empty: Whether a graph without variables is fine: nothing is saved, then.
            write_version: The format: SaverDef.V2, or V1 for readers from before TensorFlow 0.12. Both are restored.
            pad_step_number: Whether the step has 8 digits in file names, so that they sort.
            save_relative_paths: Whether the `checkpoint` file has relative paths, so that the directory can be moved.
            filename: The default of the node with the path.
            consistent: Whether a checkpoint has only whole steps of all workers, while they go on; an addition to
                TensorFlow. The workers' optimizers must be wrapped in a `tf.train.GatedOptimizer`.

        Raises:
            TypeError: If `var_list` is invalid.
            ValueError: If variables share a name, or there are none; if `consistent` is asked for without a
                GatedOptimizer.
        """
        if defer_build and var_list is not None:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                "var_list=None."
            )
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self.saver_def = saver_def
        self._builder = builder
        self._is_built = False
        self._allow_empty = allow_empty
        self._is_empty: bool | None = None
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._filename = filename
        self._consistent = consistent
        self._gates: list[StepGate] = []
        self._saving = threading.RLock()
        self._release: Any = None
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        if not defer_build:
            self.build()

    def __repr__(self) -> str:
        saved = f"{len(self._var_list)} variables" if self._var_list is not None else "all variables"
        kept = f"keeps {self._max_to_keep}" if self._max_to_keep else "keeps all"
        last = f", last {self._last_checkpoints[-1][0]!r}" if self._last_checkpoints else ""
        return f"<tf.train.Saver of {saved}, {kept}{last}{'' if self._is_built else ', not built'}>"

    def build(self) -> None:
        """Adds the nodes, if `defer_build` left them out of the constructor."""
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            if self._var_list is None:
                self._var_list = all_saveable_objects()
            self._is_empty = not self._var_list
            if self._is_empty:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                return
            builder = self._builder or BulkSaverBuilder(self._write_version)
            self.saver_def = builder.build(
                self._var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                restore_sequentially=self._restore_sequentially,
                filename=self._filename,
            )
            if self._consistent:
                self._use_gates()
        else:
            self._is_empty = False
            self.saver_def = type(self.saver_def).FromString(self.saver_def.SerializeToString())
            for field in _NAMES:
                setattr(self.saver_def, field, prepend_name_scope(getattr(self.saver_def, field), self._name))
            self._max_to_keep = self.saver_def.max_to_keep
            self._keep_checkpoint_every_n_hours = self.saver_def.keep_checkpoint_every_n_hours
            self._sharded = self.saver_def.sharded
        self._check_saver_def()
        self._next_checkpoint_time = time.time() + self._keep_checkpoint_every_n_hours * 3600

    def _use_gates(self) -> None:
        """Finds the gates of the graph, and adds what opens them as soon as all variables have been read."""
        self._gates = gates()
        if not self._gates:
            raise ValueError(
                "Saver(consistent=True) needs to know when steps are half done: wrap the optimizer in a "
                "tf.train.GatedOptimizer, and make the Saver after its apply_gradients or minimize."
            )
        tensors = [spec.tensor for saveable in saveables_from(self._var_list) for spec in saveable.specs]
        with control_dependencies(None), name_scope(self._name, "save"):
            self._release = group(*(gate.release_after(tensors) for gate in self._gates))
        # A write that fails, on a full disk for instance, cancels what its step has not done yet: the permits must be
        # back before, or some of them never are.
        saved = get_default_graph().as_graph_element(self.saver_def.save_tensor_name)
        for op in ancestors([saved]):
            if op.type == "SaveV2":
                op._add_control_input(self._release)

    def check(self, sess: Any) -> None:
        """Raises AbortedError if the model has a part of a step, so that no consistent checkpoint can be made of it."""
        for gate in self._gates:
            gate.check(sess)

    def _check_saver_def(self) -> None:
        for field in _NAMES:
            if not getattr(self.saver_def, field):
                raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")

    def _require_built(self, what: str) -> None:
        if not self._is_built:
            raise RuntimeError(f"`build()` should be called before {what} if defer_build==True")

    # The list of checkpoints.

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are not deleted yet, from the oldest to the latest; can be given to `restore`."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Deprecated: as `set_last_checkpoints_with_time`, without times."""
        if not isinstance(last_checkpoints, list):
            raise AssertionError(f"last_checkpoints must be a list, got {last_checkpoints!r}")
        self._last_checkpoints = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[str, float]]) -> None:
        """Sets the list of (path, time) of the checkpoints that are there, from the oldest to the latest."""
        if not isinstance(last_checkpoints_with_time, list):
            raise AssertionError(f"last_checkpoints_with_time must be a list, got {last_checkpoints_with_time!r}")
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Takes over checkpoints that an earlier run left, those that exist: they are deleted in their turn."""
        existing = [(path, mtimes[0]) for path in checkpoint_paths if (mtimes := get_checkpoint_mtimes([path]))]
        self.set_last_checkpoints_with_time(existing)

    def _record_last_checkpoint(self, path: str) -> None:
        if not self._max_to_keep:
            return
        self._last_checkpoints = [known for known in self._last_checkpoints if known[0] != path]
        self._last_checkpoints.append((path, time.time()))
        while len(self._last_checkpoints) > self._max_to_keep:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _delete_old_checkpoints(self, meta_graph_suffix: str) -> None:
        while self._checkpoints_to_be_deleted:
            path, made = self._checkpoints_to_be_deleted.pop(0)
            if made > self._next_checkpoint_time:
                # Kept for good.
                self._next_checkpoint_time += self._keep_checkpoint_every_n_hours * 3600
                continue
            if path in self.last_checkpoints:
                continue
            try:
                remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
            except Exception as e:
                logging.warning("Ignoring: %s", e)

    # Saving and restoring.

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Saves the variables of a session. Threads that save with one Saver do so one after the other.

        Args:
            sess: The session.
            save_path: The prefix of the checkpoint's files.
            global_step: A number to add to the prefix, or a variable or tensor with one.
            latest_filename: The name of the `checkpoint` file, if not 'checkpoint'.
            meta_graph_suffix: How the MetaGraph's file name ends.
            write_meta_graph: Whether to write the graph, too.
            write_state: Whether to write the `checkpoint` file, and to delete old checkpoints.
            strip_default_attrs: Whether the MetaGraph leaves out attributes that have their default.
            save_debug_info: Not used.

        Returns:
            The prefix, for `restore`; None if the saver is empty.

        Raises:
            TypeError: If `sess` is not a session.
            ValueError: If `latest_filename` is a path, or collides with `save_path`, or the directory does not exist.
            RuntimeError: If `build` was not called.
            errors.ResourceExhaustedError: If the disk is full. Nothing is left behind, then.
        """
        self._require_built("save")
        if not callable(getattr(sess, "run", None)):
            raise TypeError(f"'sess' must be a Session; {sess!r}")
        save_path = os.fsdecode(save_path)
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        if global_step is None and os.path.basename(save_path) == latest_filename and not self._sharded:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{save_path}'. Guard against "
                "collisions by choosing another name."
            )
        # From the step's number on: a save that began earlier must not be named as the latest after a later one.
        with self._saving:
            prefix = self._prefix(sess, save_path, global_step)
            path: str | None = None
            if not self._is_empty:
                path = self._run_save(sess, prefix)
            # Before the `checkpoint` file: a checkpoint that it names is complete, whenever the process is killed.
            if write_meta_graph:
                with sess.graph.as_default(), staged(meta_graph_filename(prefix, meta_graph_suffix)) as meta_graph:
                    self.export_meta_graph(
                        meta_graph,
                        strip_default_attrs=strip_default_attrs,
                        save_debug_info=save_debug_info,
                    )
            if path is not None and write_state:
                self._record_last_checkpoint(path)
                write_checkpoint_state(
                    os.path.dirname(save_path), path, self.last_checkpoints, latest_filename, self._save_relative_paths
                )
                self._delete_old_checkpoints(meta_graph_suffix)
                if global_step is not None:
                    remove_orphans(save_path)
            return path

    def _prefix(self, sess: Any, save_path: str, global_step: Any) -> str:
        if global_step is None:
            return save_path
        if not isinstance(global_step, int):
            global_step = int(global_step) if hasattr(global_step, "__index__") else value_of(sess, global_step)
        return f"{save_path}-{global_step:08d}" if self._pad_step_number else f"{save_path}-{global_step}"

    def _run_save(self, sess: Any, prefix: str) -> str:
        if not is_remote(prefix):
            return self._run_local_save(sess, prefix)
        if getattr(sess, "sess_str", ""):
            raise errors.UnimplementedError(
                None, None, f"Tasks of a cluster cannot save to {prefix}: choose a folder that all of them see."
            )
        with staged(prefix) as local:
            self._run_local_save(sess, local)
        return prefix

    def _run_local_save(self, sess: Any, prefix: str) -> str:
        parent = os.path.dirname(local_path(prefix)) or "."
        feeds = {self.saver_def.filename_tensor_name: local_path(prefix)}
        for gate in self._gates:
            gate.close(sess)
        try:
            fetches = [self.saver_def.save_tensor_name, *([self._release] if self._gates else [])]
            path = sess.run(fetches, feeds)[0]
        except errors.OpError as e:
            self._remove_parts(sess.graph, prefix)
            with contextlib.suppress(errors.OpError):  # of a task that is lost
                for gate in self._gates:
                    gate.release(sess)
            if isinstance(e, (errors.NotFoundError, errors.FailedPreconditionError)) and not os.path.isdir(parent):
                raise ValueError(f"Parent directory of {prefix} doesn't exist, can't save.") from e
            raise
        return os.fsdecode(path)

    def _remove_parts(self, graph: Any, prefix: str) -> None:
        """Removes the parts that a failed sharded save wrote."""
        import shutil

        filename = self.saver_def.filename_tensor_name
        for op in graph.get_operations():
            if op.type != "StringJoin" or len(op.inputs) != 2 or op.inputs[0].name != filename:
                continue
            # The choice between '.part' and '_temp.../part': the folder goes with all that is in it.
            for tensor in op.inputs[1].op.inputs[1:]:
                suffix = constant_value(tensor)
                folder = os.path.dirname(suffix.item().decode()) if suffix is not None else ""
                if folder:
                    shutil.rmtree(local_path(prefix) + folder, ignore_errors=True)

    def restore(self, sess: Any, save_path: Any) -> None:
        """Restores the variables from a checkpoint. They need not be initialized before.

        Args:
            sess: The session.
            save_path: The prefix that `save` or `tf.train.latest_checkpoint` returned.

        Raises:
            ValueError: If `save_path` is None, or there is no such checkpoint.
            errors.NotFoundError: If a variable is not in the checkpoint.
            errors.InvalidArgumentError: If a variable has another shape or type there.
            errors.DataLossError: If a file is damaged.
        """
        self._require_built("restore")
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fsdecode(save_path)
        if not checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        logging.info("Restoring parameters from %s", prefix)
        for gate in self._gates:
            gate.close_for_restore(sess)
        try:
            with fetched(prefix, ".*") as local:
                sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: local_path(local)})
        except (errors.NotFoundError, errors.InvalidArgumentError) as e:
            raise explain(e, sess.graph, self.saver_def, prefix) from e
        for gate in self._gates:
            gate.open(sess)

    # As protobufs.

    def as_saver_def(self) -> Any:
        """The SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef, with names out of `export_scope`; None if the saver lies outside of it."""
        if self.saver_def is None:
            return None
        if not in_name_scope(self.saver_def.filename_tensor_name, export_scope):
            return None
        proto = type(self.saver_def).FromString(self.saver_def.SerializeToString())
        for field in _NAMES:
            setattr(proto, field, strip_name_scope(getattr(proto, field), export_scope))
        return proto

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """The saver whose nodes a SaverDef names in the default graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Iterable[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """Returns the default graph as a MetaGraphDef with this saver; see `tf.train.export_meta_graph`."""
        return export_meta_graph(
            filename=filename,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )


register_proto_function(
    GraphKeys.SAVERS,
    "saver_pb2.SaverDef",
    lambda saver, export_scope=None: saver.to_proto(export_scope=export_scope),
    lambda proto, import_scope=None: Saver.from_proto(proto, import_scope=import_scope),
)
