"""`thalweg checkpoint`: what is in checkpoints, what they differ in, their mean, and other names for variables.

thalweg checkpoint list /tmp/model
thalweg checkpoint show /tmp/model --values dense/kernel
thalweg checkpoint diff model-100 model-200
thalweg checkpoint average model-100 model-200 --output mean
thalweg checkpoint rename model-200 --output renamed --rule '^old/' 'new/'
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

HELP = "list, show, compare, average and rename checkpoints"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    listed = actions.add_parser("list", help="the checkpoints of a folder, the latest last")
    listed.add_argument("folder", help="the folder")
    shown = actions.add_parser("show", help="the variables of a checkpoint: names, types, shapes, sizes")
    shown.add_argument("checkpoint", help="a checkpoint, or a folder: its latest one")
    shown.add_argument("--values", action="append", default=[], metavar="NAME", help="print the values of a variable")
    compared = actions.add_parser("diff", help="what two checkpoints differ in; the exit code is 1 if they do")
    compared.add_argument("first", help="a checkpoint or folder")
    compared.add_argument("second", help="a checkpoint or folder")
    averaged = actions.add_parser("average", help="write the mean of several checkpoints")
    averaged.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="checkpoints with the same variables")
    averaged.add_argument("--output", required=True, metavar="PREFIX", help="where to write the mean")
    renamed = actions.add_parser("rename", help="write a checkpoint with other names of variables")
    renamed.add_argument("checkpoint", help="a checkpoint or folder")
    renamed.add_argument("--output", required=True, metavar="PREFIX", help="where to write it")
    renamed.add_argument(
        "--rule", action="append", nargs=2, required=True, metavar=("REGEX", "REPLACEMENT"),
        help="replaces what a regular expression finds in each name; may be given several times",
    )  # fmt: skip


def run(options: Any) -> int:
    """Runs one action."""
    code: int = {"list": _list, "show": _show, "diff": _diff, "average": _average, "rename": _rename}[options.action](
        options
    )
    return code


def _list(options: Any) -> int:
    # Start-up time: `thalweg --help` reads no checkpoints.
    from thalweg.train.checkpoints.checkpoint_state import get_checkpoint_mtimes, get_checkpoint_state

    state = get_checkpoint_state(options.folder)
    if state is None and os.path.exists(f"{options.folder}.index"):
        raise ValueError(f"{options.folder} is one checkpoint, no folder of some: try `thalweg checkpoint show`")
    if state is None:
        raise ValueError(f"{options.folder} has no checkpoints (no file 'checkpoint')")
    for prefix in state.all_model_checkpoint_paths:
        times = get_checkpoint_mtimes([prefix])
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(times[0])) if times else "gone".ljust(19)
        latest = "  (latest)" if prefix == state.model_checkpoint_path else ""
        print(f"{when}  {os.path.basename(prefix)}{latest}")
    return 0


def _show(options: Any) -> int:
    import numpy as np

    # Start-up time: see `_list`.
    from thalweg.profiler.report import size
    from thalweg.train.checkpoints.checkpoint_reader import load_checkpoint

    reader = load_checkpoint(options.checkpoint)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    for name in options.values:
        if name not in shapes:
            raise ValueError(f"{options.checkpoint} has no variable {name!r}")
        print(f"{name} = {np.asarray(reader.get_tensor(name))!r}")
    if options.values:
        return 0
    width = max((len(name) for name in shapes), default=0)
    total = elements = 0
    for name in sorted(shapes):
        count = int(np.prod(shapes[name], dtype=np.int64))
        each = int(types[name].base_dtype.size or 0)
        elements, total = elements + count, total + count * each
        print(
            f"{name:<{width}}  {types[name].name:<9} {shapes[name]!s:<20} {size(count * each) if each else ''}".rstrip()
        )
    print(f"{len(shapes)} variables, {elements:,} elements, {size(total)}")
    return 0


def _diff(options: Any) -> int:
    from thalweg.train.checkpoints.checkpoint_tools import differences  # Start-up time: see `_list`.

    found = differences(options.first, options.second)
    for name, what, detail in found:
        print(f"{name}: {what}{f': {detail}' if detail else ''}")
    if not found:
        print("The checkpoints have the same variables and values.")
    return 1 if found else 0


def _average(options: Any) -> int:
    from thalweg.train.checkpoints.checkpoint_tools import average  # Start-up time: see `_list`.

    taken = average(options.checkpoints, options.output)
    print(f"The mean of {len(options.checkpoints)} checkpoints is in {options.output}.")
    if taken:
        print(f"From the last one, because they hold no floating-point numbers: {', '.join(taken)}")
    return 0


def _rename(options: Any) -> int:
    from thalweg.train.checkpoints.checkpoint_tools import rename  # Start-up time: see `_list`.

    changed = rename(options.checkpoint, options.output, [tuple(rule) for rule in options.rule])
    for old, new in changed.items():
        print(f"{old} -> {new}")
    print(f"{len(changed)} names changed; the checkpoint is {options.output}.")
    return 0
