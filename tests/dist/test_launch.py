"""`thalweg launch` with real processes: ends, failures, restarts, signals, logs, keys."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dist.launched import Launched, wait_until
from tests.dist.processes import ROOT

pytestmark = pytest.mark.processes

# Prints its place, and lives as its arguments say.
PLAIN = """
import json, os, signal, subprocess, sys, time
place = json.loads(os.environ["TF_CONFIG"])["task"]
name = f"{place['type']}-{place['index']}"
folder = os.environ["PIDS"]
starts = len([each for each in os.listdir(folder) if each.startswith(name + ".start")])
open(os.path.join(folder, f"{name}.start{starts}"), "w").write(str(os.getpid()))
print("hello from", name, "start", starts, sys.argv[1:], flush=True)
"""
FOREVER = PLAIN + "while True: time.sleep(60)\n"
PS_FOREVER = PLAIN + "while place['type'] == 'ps': time.sleep(60)\n"

TRAINING = """
import sys
import thalweg as tf
task = tf.distribute.start_task()
if task.job_name == "ps":
    task.server.join()
with tf.device(tf.train.replica_device_setter(cluster=task.cluster, worker_device=task.device)):
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(w - 3.0), global_step=step)
hooks = [tf.train.StopAtStepHook(last_step=int(sys.argv[1]))]
now = float("nan")  # A worker that comes after the last step runs none.
with tf.train.MonitoredTrainingSession(task.server.target, task.is_chief, hooks=hooks) as session:
    while not session.should_stop():
        at, now, _ = session.run([step, w, train])
        if at == 0:
            print("training", flush=True)
print("chief" if task.is_chief else "worker", "ends", f"{now:.3f}")
"""

# The variable goes to 3. A gradient that a slow worker has taken at the start, and applies at the end, adds up to 0.6.
LOW, HIGH = 2.9, 3.7


def test_a_program_trains_and_ps_tasks_end_with_the_workers(tmp_path: Path) -> None:
    with Launched(tmp_path, TRAINING, "--ps", "2", "--workers", "2", arguments=("60",)) as launched:
        assert launched.end() == 0, launched.output
        assert LOW < launched.final_value < HIGH
        assert "worker 1 | worker ends" in launched.output
        assert launched.left_behind() == []
    assert not list(tmp_path.glob("thalweg-launch-*"))


def test_tasks_of_a_run_encrypt_tcp_with_certificates_of_the_launcher(tmp_path: Path) -> None:
    program = TRAINING.replace("start_task()", "start_task(protocol='thalweg+tcp')")
    program += "\nprint('shares', [each.shares_memory for each in task.server._task.network.connections()])"
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2", "--tls", arguments=("30",)) as launched:
        assert launched.end() == 0, launched.output
        assert any(LOW < float(value) < HIGH for value in re.findall(r"ends (\d\S*)", launched.output)), launched.output
        assert "shares [False" in launched.output
        assert "has refused" not in launched.output


def test_a_chief_and_new_interpreters_and_ps_tasks_that_only_serve(tmp_path: Path) -> None:
    options = ("--ps", "1", "--workers", "1", "--chief", "--fresh", "--serve-ps")
    program = TRAINING.replace('if task.job_name == "ps"', 'assert task.job_name != "ps"\nif False')
    with Launched(tmp_path, program, *options, arguments=("30",)) as launched:
        assert launched.end() == 0, launched.output
        assert "chief 0  | chief ends" in launched.output and "worker 0 | worker ends" in launched.output


def test_logs_are_merged_line_by_line_and_written_to_files(tmp_path: Path) -> None:
    program = PLAIN + "for i in range(200): print(i, 'x' * 500)\nprint('no line break', end='')\n"
    options = ("--ps", "0", "--workers", "3", "--log-dir", str(tmp_path / "logs"))
    with Launched(tmp_path, program, *options, arguments=("--flag", "a b")) as launched:
        assert launched.end() == 0
        for index in range(3):
            mine = [line for line in launched.lines if line.startswith(f"worker {index} | ")]
            expected = [
                f"hello from worker-{index} start 0 ['--flag', 'a b']",
                *(f"{i} {'x' * 500}" for i in range(200)),
                "no line break",
            ]
            assert [line.partition(" | ")[2] for line in mine] == expected
            assert (tmp_path / "logs" / f"worker-{index}.log").read_text().splitlines() == expected
        assert "\x1b" not in launched.output


def test_a_worker_that_fails_ends_the_launch_with_its_exit_code(tmp_path: Path) -> None:
    program = PS_FOREVER + "if place['index'] == 1: sys.exit(7)\nwhile True: time.sleep(60)\n"
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2", "--restarts", "1") as launched:
        assert launched.end() == 7, launched.output
        assert "worker 1 | hello from worker-1 start 1" in launched.output
        assert "worker 1 ended with exit code 7 after 1 restarts" in launched.output
        assert launched.left_behind() == []


def test_an_exception_is_shown_and_is_exit_code_1(tmp_path: Path) -> None:
    program = PLAIN + "def fail():\n    raise ValueError('wrong')\nfail()\n"
    with Launched(tmp_path, program, "--ps", "0", "--workers", "1", "--restarts", "0") as launched:
        assert launched.end() == 1
        shown = [line.partition(" | ")[2] for line in launched.lines]
        assert "Traceback (most recent call last):" in shown and "ValueError: wrong" in shown
        assert not any("child_process.py" in line for line in shown), launched.output


@pytest.mark.parametrize("fresh", [(), ("--fresh",)], ids=["forked", "fresh"])
def test_a_killed_worker_is_started_again(tmp_path: Path, fresh: tuple[str, ...]) -> None:
    program = PS_FOREVER + "while starts == 0: time.sleep(60)\n"
    with Launched(tmp_path, program, "--ps", "1", "--workers", "1", *fresh) as launched:
        launched.wait_for("hello from worker-0 start 0")
        os.kill(int((tmp_path / "worker-0.start0").read_text()), signal.SIGKILL)
        launched.wait_for("worker 0 was ended by SIGKILL: restart 1 of 3")
        launched.wait_for("hello from worker-0 start 1")
        assert launched.end() == 0


def test_training_goes_on_after_a_worker_was_killed(tmp_path: Path) -> None:
    program = f"import os\nopen(os.environ['PIDS'] + '/pid', 'w').write(str(os.getpid()))\n{TRAINING}"
    program = program.replace("at, now, _ =", "import time; time.sleep(0.002); at, now, _ =")
    with Launched(tmp_path, program, "--ps", "1", "--workers", "1", "--serve-ps", arguments=("400",)) as launched:
        launched.wait_for("training")
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        launched.wait_for("worker 0 was ended by SIGKILL")
        assert launched.end() == 0, launched.output
        assert LOW < launched.final_value < HIGH


def test_training_goes_on_from_the_checkpoint_after_a_ps_task_was_killed(tmp_path: Path) -> None:
    program = f"import os\n{TRAINING}"
    program = program.replace("hooks=hooks", f"{str(tmp_path / 'model')!r}, hooks=hooks, save_checkpoint_steps=20")
    program = program.replace("if at == 0", "if at % 100 == 0").replace('"training"', '"at", at')
    program = program.replace("task.server.join", "print('pid', os.getpid(), flush=True); task.server.join")
    program = program.replace("at, now, _ =", "import time; time.sleep(0.002); at, now, _ =")
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2", arguments=("1000",)) as launched:
        pid = int(launched.wait_for(r"ps 0 +\| pid (\d+)")[1])
        assert wait_until(lambda: bool(list((tmp_path / "model").glob("model.ckpt-[1-9]*.index"))))
        os.kill(pid, signal.SIGKILL)
        launched.wait_for("ps 0 was ended by SIGKILL: restart 1")
        assert launched.end() == 0, launched.output
        assert LOW < launched.final_value < HIGH
        assert "at 0" not in launched.output.partition("SIGKILL")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_signal_ends_all_processes_and_their_children(tmp_path: Path, number: signal.Signals) -> None:
    program = PLAIN + "subprocess.Popen(['sleep', '1000'])\nprint('child', flush=True)\nwhile True: time.sleep(60)\n"
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2") as launched:
        for _ in range(3):
            launched.wait_for(r"\| child")
        launched.process.send_signal(number)
        assert launched.end() == 128 + number
        assert launched.left_behind() == []
    assert not list(tmp_path.glob("thalweg-launch-*"))


def test_a_task_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    program = PLAIN + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(1000)\n"
    with Launched(tmp_path, program, "--ps", "0", "--workers", "1", "--grace", "0.2") as launched:
        launched.wait_for("deaf")
        launched.process.send_signal(signal.SIGINT)
        assert launched.end() == 130
        assert launched.left_behind() == []


@pytest.mark.parametrize("fresh", [(), ("--fresh",)], ids=["forked", "fresh"])
def test_a_launcher_that_is_killed_leaves_nothing_behind(tmp_path: Path, fresh: tuple[str, ...]) -> None:
    program = PLAIN + "subprocess.Popen(['sleep', '1000'])\nprint('child', flush=True)\nwhile True: time.sleep(60)\n"
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2", *fresh) as launched:
        for _ in range(3):
            launched.wait_for(r"\| child")
        launched.process.kill()
        launched.end()
        assert launched.left_behind() == []
    assert wait_until(lambda: not list(tmp_path.glob("thalweg-launch-*")))


def test_the_end_of_a_terminal_ends_the_launch(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(FOREVER)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PIDS": str(tmp_path), "TMPDIR": str(tmp_path)}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", "launch", "--ps", "0", "--workers", "1", str(script)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"steps/s" not in shown or b"hello" not in shown:
        shown += os.read(ours, 4096)
    assert b"\x1b[36mworker 0 |\x1b[0m hello" in shown
    assert re.search(rb"worker 0  running +\d+ +0", shown)
    pid = int((tmp_path / "worker-0.start0").read_text())
    os.close(ours)
    assert process.wait(20) == 128 + signal.SIGHUP
    assert not os.path.exists(f"/proc/{pid}")


def test_a_process_without_the_key_is_refused(tmp_path: Path) -> None:
    program = """
import os
import thalweg as tf
from thalweg.dist import keys
task = tf.distribute.start_task()
assert len(keys.cluster_key()) == 64
if task.job_name == "ps":
    task.server.join()
os.environ["THALWEG_CLUSTER_KEY"] = "another" if task.task_index else ""
try:
    with tf.Session(f"grpc://{task.cluster.task_address('ps', 0)}") as session:
        session.run(tf.constant(1))
except tf.errors.UnauthenticatedError:
    print("refused")
"""
    with Launched(tmp_path, program, "--ps", "1", "--workers", "2") as launched:
        assert launched.end() == 0, launched.output
        assert launched.output.count("| refused") == 2
        assert "ps/replica:0/task:0 has refused a caller" in launched.output


def test_keys_differ_from_launch_to_launch(tmp_path: Path) -> None:
    keys = set()
    for _ in range(2):
        program = "import os; print('key', os.environ['THALWEG_CLUSTER_KEY'])\n"
        with Launched(tmp_path, program, "--ps", "0", "--workers", "1") as launched:
            keys.add(launched.wait_for("key ([0-9a-f]{64})")[1])
            assert launched.end() == 0
    assert len(keys) == 2


def test_forked_tasks_have_their_own_random_numbers_and_main_module(tmp_path: Path) -> None:
    program = """
import random, sys
import numpy as np
import thalweg as tf
assert sys.modules["__main__"].__dict__ is globals() and __name__ == "__main__"
with tf.Session() as session:
    print("numbers", np.random.randint(1 << 30), random.randrange(1 << 30), session.run(tf.random_uniform([])))
"""
    with Launched(tmp_path, program, "--ps", "0", "--workers", "2") as launched:
        numbers = [launched.wait_for(r"numbers (\d+) (\d+) (\S+)").groups() for _ in range(2)]
        assert launched.end() == 0
    assert all(one != other for one, other in zip(*numbers, strict=True))


def test_bad_options_are_told_in_one_line(tmp_path: Path) -> None:
    with Launched(tmp_path, FOREVER, "--ps", "0", "--workers", "0") as launched:
        assert launched.end() == 1
        assert launched.output.startswith("thalweg launch: A cluster needs tasks")
