"""Fixtures of every test: a fresh default graph, and a failure for threads, files and processes that it leaks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-seconds", type=float, default=8.0, help="how long each fuzz test runs")
    parser.addoption("--stress-seconds", type=float, default=1.0, help="how long each stress test runs")


@pytest.fixture
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--fuzz-seconds"))


@pytest.fixture
def stress_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--stress-seconds"))


def _open_files() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} -> {os.readlink(entry)}")
        except OSError:
            continue  # The descriptor of this very listing.
    return found


def _files_of_tests(files: set[str]) -> set[str]:
    """Without the listing itself, event loops, the process's shared memory, and libraries that a sanitizer reads."""
    return {
        f for f in files if "/fd" not in f and "anon_inode" not in f and ".so" not in f and "memfd:thalweg" not in f
    }


def _children() -> set[str]:
    try:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    except OSError:
        return set()


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fails a test that leaks a Python thread, a file descriptor or a child process."""
    threads, files, children = set(threading.enumerate()), _open_files(), _children()
    yield
    import thalweg as tf

    tf.reset_default_graph()
    # Threads of the core, which stay, are dummies here once they have called Python.
    own = [t for t in threading.enumerate() if not isinstance(t, threading._DummyThread)]
    left = [t for t in own if t not in threads and t.is_alive()]
    for thread in left:
        thread.join(10.0)
    assert not [t.name for t in left if t.is_alive()], "threads left running"
    assert not _children() - children, "processes left running"
    # A pipeline's thread may be the last to close a file.
    deadline = time.monotonic() + 10.0
    while (opened := _files_of_tests(_open_files() - files)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not opened, "files left open"
