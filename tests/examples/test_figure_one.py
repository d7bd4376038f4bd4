"""The program of the paper's figure 1, killed at random moments: it goes on from its last checkpoint."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf

ROOT = Path(__file__).resolve().parents[2]
BATCH = 8
STEPS = 10_000_000  # More than it gets to do before it is killed.


def start(folder: Path, steps: int) -> subprocess.Popen[str]:
    command = [
        sys.executable, "examples/figure_one.py", "--model_dir", str(folder), "--batch", str(BATCH),
        "--steps", str(steps), "--save_secs", "0.02",
    ]  # fmt: skip
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def checked_step(folder: Path) -> int:
    """The step of the last checkpoint, 0 without one; its counts of examples must add up."""
    latest = tf.train.latest_checkpoint(str(folder))
    if latest is None:
        return 0
    reader = tf.train.load_checkpoint(latest)
    step = int(reader.get_tensor("global_step"))
    times_seen = reader.get_tensor("times_seen")
    assert times_seen.sum() == step * BATCH, "every step trained on a batch, and no example was lost or counted twice"
    assert latest.endswith(f"-{step}")
    return step


@pytest.mark.timeout(120)
def test_a_training_killed_at_random_moments_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    rng = random.Random(11)
    reached = 0
    for _ in range(3):
        program = start(tmp_path, STEPS)
        try:
            assert program.stdout is not None
            seen = []
            for line in program.stdout:
                seen.append(line)
                saved_step = re.match(r"Saved step (\d+)\.", line)
                if saved_step and int(saved_step.group(1)) > reached:
                    break
            else:
                pytest.fail("it ended by itself: " + "".join(seen))
            assert f"Training from step {reached} to" in seen[1]
            time.sleep(rng.uniform(0, 0.15))
        finally:
            program.send_signal(signal.SIGKILL)
            output = "".join(seen) + program.communicate()[0]
        saved = [int(number) for number in re.findall(r"Saved step (\d+)\.", output)]
        previous, reached = reached, checked_step(tmp_path)
        assert reached >= saved[-1], "what it said that it saved is there"
        assert reached > previous
        assert saved == sorted(saved)

    program = start(tmp_path, reached + 40)
    output = program.communicate(timeout=60)[0]
    assert program.returncode == 0, output
    assert f"Training from step {reached} to {reached + 40}." in output
    assert checked_step(tmp_path) == reached + 40
    assert not list(tmp_path.glob("*.writing-*")), "nothing is left of checkpoints that were being written"
    accuracy = re.search(r"Held-out accuracy: ([\d.]+)%", output)
    assert accuracy
    assert float(accuracy.group(1)) > 30
    weights = tf.train.load_checkpoint(str(tmp_path)).get_tensor("network/dense/kernel")
    assert np.isfinite(weights).all()
