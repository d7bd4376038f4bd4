"""Runs the native tests, one file of them at a time, after bringing their program up to date."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_BUILD = _HERE.parent.parent / "build"
_SUITES = sorted(path.stem for path in _HERE.glob("*.cc") if path.stem != "check")


@pytest.fixture(scope="module")
def program() -> Path:
    """The program with the tests; built here unless `make test` has done so."""
    if not (_BUILD / "CMakeCache.txt").exists():
        pytest.skip("the native core was not built here (make build)")
    with open(_BUILD / "native_tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Each process of pytest-xdist comes here.
        cmake = Path(sys.executable).parent / "cmake"
        built = subprocess.run(
            [cmake, "--build", _BUILD, "--target", "native_tests", "--parallel", "2"], capture_output=True, text=True
        )
    assert built.returncode == 0, built.stdout + built.stderr
    return _BUILD / "native_tests"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", _SUITES)
def test_native(suite: str, program: Path) -> None:
    done = subprocess.run([program, suite], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_fails_if_it_is_asked_for_tests_that_do_not_exist(program: Path) -> None:
    done = subprocess.run([program, "no_such_file"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
