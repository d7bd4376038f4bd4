"""TensorFlow's own clients on Thalweg's servers, and Thalweg's sessions on TensorFlow's servers: the same programs.

TensorFlow runs in processes of an environment of its own: that of the benchmarks (`make bench`, or `tf` in the folder
that THALWEG_PEERS names), or the Python that THALWEG_TENSORFLOW_PYTHON names. Where none is, only Thalweg's two halves
of the protocol meet each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import thalweg as tf
from tests.dist.master_programs import PROGRAMS
from tests.dist.processes import ROOT, free_ports

PEERS = Path(os.environ.get("THALWEG_PEERS", ROOT / ".bench"))
PYTHON = Path(os.environ.get("THALWEG_TENSORFLOW_PYTHON", PEERS / "tf" / "bin" / "python"))
SCRIPT = Path(__file__).with_name("tensorflow_process.py")
TENSORFLOW_ONLY = [
    "tensorflow_callables", "traced_functions_and_functional_control_flow", "convolutional_network",
    "gradients_of_functional_loops_and_branches", "dynamic_rnn_with_lists", "mapped_and_scanned_functions",
]  # fmt: skip

needs_tensorflow = pytest.mark.skipif(not PYTHON.exists(), reason="TensorFlow has no environment here")
pytestmark = pytest.mark.processes


def _tensorflow(*arguments: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.Popen([PYTHON, SCRIPT, *arguments], stdout=subprocess.PIPE, text=True, env=environment)


def _addresses() -> dict[str, list[str]]:
    return {job: [f"localhost:{port}"] for job, port in zip(("worker", "ps"), free_ports(2), strict=True)}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A Thalweg cluster whose worker is open to TensorFlow clients."""
    jobs = _addresses()
    ps = tf.train.Server(jobs, "ps", 0)
    worker = tf.train.Server(jobs, "worker", 0, tensorflow_clients=True)
    with tf.Session(worker.target) as sess:
        sess.list_devices()  # The tasks stay connected from now on.
    yield worker.target
    worker.stop()
    ps.stop()


@pytest.fixture(scope="module")
def outcomes(target: str) -> dict[str, str | None]:
    """How the programs ended that an unmodified TensorFlow ran on the Thalweg cluster."""
    with _tensorflow("run", target) as client:
        assert client.stdout is not None
        try:
            return dict(json.loads(line) for line in client.stdout)
        finally:
            client.kill()


@pytest.fixture(scope="module")
def tensorflow_server() -> Iterator[str]:
    """The address of a TensorFlow server."""
    jobs = _addresses()
    with _tensorflow("serve", json.dumps(jobs)) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n"
            yield jobs["worker"][0]
        finally:
            server.kill()


@pytest.mark.timeout(300)
@needs_tensorflow
@pytest.mark.parametrize("name", [*PROGRAMS, *TENSORFLOW_ONLY])
def test_tensorflow_clients_run_on_thalweg(outcomes: dict[str, str | None], name: str) -> None:
    assert name in outcomes, f"the client ended before: {list(outcomes)}"
    assert outcomes[name] is None, outcomes[name]


@needs_tensorflow
@pytest.mark.parametrize("name", PROGRAMS)
def test_thalweg_sessions_run_on_tensorflow(tensorflow_server: str, name: str) -> None:
    PROGRAMS[name](tf, f"tensorflow+grpc://{tensorflow_server}")


@needs_tensorflow
def test_a_tensorflow_server_is_recognized_without_being_named(tensorflow_server: str) -> None:
    PROGRAMS["feeds_fetches_and_new_operations"](tf, f"grpc://{tensorflow_server}")
    PROGRAMS["containers"](tf, f"grpc://{tensorflow_server}")


@needs_tensorflow
def test_only_what_a_step_needs_is_sent_to_tensorflow(tensorflow_server: str) -> None:
    tf.py_func(lambda: 1, [], tf.int32)  # TensorFlow's server could not call it.
    with tf.Session(f"tensorflow+grpc://{tensorflow_server}") as sess:
        assert sess.run(tf.constant(2) * 3) == 6


@pytest.mark.parametrize("scheme", ["grpc", "tensorflow+grpc"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_thalweg_sessions_run_on_thalweg_by_either_protocol(target: str, scheme: str, name: str) -> None:
    target = target.replace("grpc://", f"{scheme}://")
    tf.Session.reset(target)
    PROGRAMS[name](tf, target)


def test_this_process_does_not_use_tensorflow() -> None:
    assert "tensorflow" not in sys.modules
