"""Starts the process of a task by forking the launcher, which has imported Thalweg already.

Imports take longer than everything else that a task does before its first step. A forked process has them, and shares
their memory: a restarted task is back in a few milliseconds. The launcher has no threads of its own, uses no session
and no op, so that a copy of it is a fresh interpreter. `fresh` starts a new interpreter instead (fork and exec).

The process gets a session of its own (setsid), so that it and all of its children can be ended together, and is killed
by the kernel when the launcher dies (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from thalweg.platform.programs import exit_code

_SET_DEATH_SIGNAL: Final = 1
_SET_NAME: Final = 15
# What nearly every task needs, besides `import thalweg`.
_PRELOADED: Final = (
    "thalweg._native",
    "thalweg.dist.cluster_task",
    "thalweg.dist.connect",
    "thalweg.dist.local_cluster",
    "thalweg.graph.messages.cluster_messages",
    "thalweg.runtime.session",
    "tensorboard.compat.proto.config_pb2",
    "tensorboard.compat.proto.meta_graph_pb2",
)


def preload() -> frozenset[int]:
    """Imports what tasks need; returns the file descriptors that a forked process may keep."""
    for module in _PRELOADED:
        importlib.import_module(module)
    # Start-up time: only the launcher needs the messages before the first call.
    from thalweg.dist.messages import messages

    messages()
    gc.collect()
    gc.freeze()  # The collector would otherwise write to, and so copy, every shared page.
    return frozenset(open_files())


def open_files() -> set[int]:
    """The numbers of this process's file descriptors."""
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return {number for number in found if os.path.lexists(f"/proc/self/fd/{number}")}


def set_death_signal(parent: int) -> None:
    """Has the kernel kill this process when its parent dies; ends it at once if that has happened already."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def fork(child: Callable[[], None]) -> int:
    """Calls a function in a new process, which ends with it (exit code 1 if it raises); returns the process's id."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 counts NumPy's idle threads, which survive a fork well.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        child()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: int,
    name: str,
    keep: frozenset[int],
    fresh: bool = False,
) -> int:
    """Starts a task's process and returns its id, which is also that of its session and process group.

    Args:
        command: The arguments of the Python interpreter: a script with its arguments, or "-m" and a module.
        environment: Variables, in addition to those of the launcher.
        output: The file descriptor for standard output and standard error.
        name: The name of the process in lists of processes.
        keep: The file descriptors of the launcher that the process may have, too.
        fresh: Whether to start a new interpreter.
    """
    parent = os.getpid()

    def child() -> None:
        os.setsid()
        set_death_signal(parent)
        _prctl(_SET_NAME, f"thalweg {name}".encode()[:15])
        _reset_signals()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        for each in open_files() - keep - {0, 1, 2}:
            os.close(each)
        os.environ.update(environment)
        if fresh:
            os.execv(sys.executable, [sys.executable, *command])
        run_program_to_end(command)

    return fork(child)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGWINCH):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def run_program_to_end(command: Sequence[str]) -> NoReturn:
    """Runs a program in this process as a new interpreter would, and ends the process.

    Args:
        command: A script with its arguments, or "-m" and a module with a function `main`.
    """
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc] # noqa: SIM115
    _reseed()
    code = exit_code(lambda: _run_command(command), command[0])
    # As the interpreter does at its end.
    for step in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        try:
            step()
        except BaseException:
            traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run_command(command: Sequence[str]) -> None:
    if command[0] == "-m":
        sys.argv = list(command[1:])
        importlib.import_module(command[1]).main()
    else:
        _run_script(command)


def _run_script(command: Sequence[str]) -> None:
    script = command[0]
    with open(script, "rb") as file:
        source = file.read()
    # A module that stays: threads, pickle and `tf.app.run` look for `__main__` in sys.modules.
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    sys.argv = list(command)
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    exec(compile(source, script, "exec"), module.__dict__)


def _reseed() -> None:
    """NumPy's global generator was seeded before the fork; Python's own reseeds itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()
