"""The fork server: processes for launchers that must not fork themselves."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dist.launched import wait_until
from tests.dist.processes import ROOT
from thalweg.dist.launch.fork_client import ForkClient, server_name
from thalweg.dist.launch.fork_server import LENGTH, address_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

FOREVER = "import os, time\nprint('started', os.getpid(), flush=True)\ntime.sleep(1000)\n"
# A child in a process group of its own.
WITH_CHILD = (
    "import os, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], process_group=0)\n"
    "print('started', child.pid, flush=True)\ntime.sleep(1000)\n"
)


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.chdir(tmp_path)  # Part of the name of a server.
    monkeypatch.setattr("thalweg.dist.launch.fork_client._IGNORED", ("RAY_", "PYTEST_CURRENT_TEST"))
    return tmp_path.name


@pytest.fixture
def client(launch: str) -> Iterator[ForkClient]:
    found = ForkClient(launch)
    yield found
    found.close()
    assert wait_until(lambda: not is_listening(launch)), "the server has outlived its last client"


def is_listening(launch: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(address_of(server_name(launch))) == 0


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def started(client: ForkClient, text: str, *arguments: str, fresh: bool = False) -> tuple[int, int]:
    """Starts a program: its process, and the pipe with its output."""
    Path("program.py").write_text(text)
    receiver, sender = os.pipe()
    try:
        return client.start("worker 0", ["program.py", *arguments], {"PLACE": "here"}, sender, fresh), receiver
    except BaseException:
        os.close(receiver)
        raise
    finally:
        os.close(sender)


def read(receiver: int) -> str:
    with open(receiver, encoding="utf-8") as file:
        return file.read()


def number_in(receiver: int) -> int:
    """The number at the end of the first line."""
    with open(receiver, encoding="utf-8", closefd=False) as file:
        return int(file.readline().split()[-1])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_process_has_its_arguments_variables_output_and_exit_code(client: ForkClient, fresh: bool) -> None:
    text = "import os, sys\nprint(os.environ['PLACE'], sys.argv, file=sys.stderr)\nsys.exit(7)\n"
    for _ in range(2):  # A process that has ended can be started again.
        _, receiver = started(client, text, "a b", fresh=fresh)
        assert client.wait() == 7
        assert read(receiver) == "here ['program.py', 'a b']\n"


def test_a_signal_that_ends_a_process_is_its_exit_code(client: ForkClient) -> None:
    pid, receiver = started(client, FOREVER)
    number_in(receiver)
    os.kill(pid, signal.SIGTERM)
    assert client.wait() == -signal.SIGTERM
    os.close(receiver)


def test_clients_with_one_environment_share_a_server(
    client: ForkClient, launch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_RAYLET_PID", "123")  # Ray's own variables are different in each of its workers.
    second = ForkClient(launch)
    parents = []
    for each in (client, second):
        _, receiver = started(each, "import os; print('parent', os.getppid())")
        parents.append(number_in(receiver))
        os.close(receiver)
        assert each.wait() == 0
    second.close()
    assert parents[0] == parents[1]
    _, receiver = started(client, "pass")  # The other one's end changes nothing.
    assert client.wait() == 0
    os.close(receiver)


def test_other_launches_and_environments_get_other_servers(launch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = server_name(launch)
    assert server_name(f"{launch} again") != name
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # Read when the server is started, and not when it forks.
    assert server_name(launch) != name


@pytest.mark.parametrize("how", ["close", "end"])
def test_a_process_and_its_children_end_with_their_client(launch: str, how: str) -> None:
    client, other = ForkClient(launch), ForkClient(launch)
    pid, receiver = started(client, WITH_CHILD)
    child = number_in(receiver)
    assert is_running(pid) and is_running(child)
    getattr(client, how)()
    assert wait_until(lambda: not is_running(pid) and not is_running(child))
    client.close()
    other.close()
    os.close(receiver)
    assert wait_until(lambda: not is_listening(launch))


def test_processes_and_their_children_end_with_a_killed_server(launch: str) -> None:
    client = ForkClient(launch)
    pid, receiver = started(client, WITH_CHILD)
    child = number_in(receiver)
    server = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    assert client.wait() == -signal.SIGKILL
    assert wait_until(lambda: not is_running(pid) and not is_running(child))
    os.close(receiver)
    _, receiver = started(client, "print('again')")  # by another server
    assert client.wait() == 0
    assert read(receiver) == "again\n"
    client.close()


def test_a_client_has_one_process_at_a_time(client: ForkClient) -> None:
    _, receiver = started(client, FOREVER)
    number_in(receiver)
    with pytest.raises(OSError, match="busy"):
        started(client, "pass")
    os.close(receiver)


@pytest.mark.parametrize("data", [b"x", LENGTH.pack(1 << 60), LENGTH.pack(2) + b"[]", LENGTH.pack(9) + b'{"a": "b"'])
def test_garbage_costs_its_sender_the_connection_and_nothing_else(client: ForkClient, launch: str, data: bytes) -> None:
    bad = ForkClient(launch)
    socket.send_fds(bad.connection, [data], [2])
    bad.connection.shutdown(socket.SHUT_WR)
    bad.connection.settimeout(30.0)
    assert bad.connection.recv(1) == b""
    bad.close()
    _, receiver = started(client, "print('fine')")
    assert client.wait() == 0
    assert read(receiver) == "fine\n"
