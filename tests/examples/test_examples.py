"""The examples and the code in the documentation run."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


# A second of each example: the arguments, the words before the number that it prints at the end, and the range that the
# number then has to be in. It shows that the example learns (of the GAN, only that it runs); the accuracy that it
# reaches by hand is in its docstring.
EXAMPLES = {
    "softmax_regression": (["--steps", "150"], "Held-out accuracy: ", 80.0, 100.0),
    "mnist_mlp": (["--steps", "120", "--batch", "32"], "Held-out accuracy: ", 70.0, 100.0),
    "lenet": (["--steps", "25", "--model_dir", "{folder}/model"], "Held-out accuracy: ", 40.0, 100.0),
    "autoencoder": (
        ["--steps", "60", "--code", "16", "--picture", "{folder}/picture.png"],
        "Held-out error: ",
        0.0,
        0.07,
    ),
    "vae": (["--steps", "60", "--picture", "{folder}/picture.png"], "Held-out bound: ", -250.0, -50.0),
    "gan": (["--steps", "6", "--batch", "16", "--picture", "{folder}/picture.png"], "digits: ", 0.99, 10.0),
    "records": (
        ["--steps", "120", "--batch", "32", "--records", "{folder}/records"],
        "Held-out accuracy: ",
        60.0,
        100.0,
    ),
    "data_parallel": (["--steps", "80", "--towers", "3"], "Held-out accuracy: ", 60.0, 100.0),
    "model_parallel_lstm": (
        ["--steps", "16", "--units", "32", "--window", "8", "--clients", "2"],
        "Held-out perplexity: ",
        5.0,
        70.0,
    ),
    "dqn": (["--steps", "1000"], "Balanced for ", 30.0, 501.0),
    "reinforce": (["--steps", "25"], "Balanced for ", 20.0, 501.0),
    "ppo": (["--rounds", "4"], "Balanced for ", 30.0, 501.0),
    "actor_critic": (["--actors", "2", "--rounds", "40"], "Balanced for ", 15.0, 501.0),
    "adversarial_pair": (["--steps", "150"], "Points near a cluster: ", 0.05, 1.01),
    "neural_stack": (["--steps", "150"], "Right symbols: ", 0.3, 1.01),
    "beam_search": (["--steps", "60", "--length", "12"], "Behind the best line of all: ", -0.001, 5.0),
    "tree_network": (["--steps", "60"], "right values: ", 0.2, 1.01),
    "maml": (["--steps", "3"], "after one step: ", 0.0, 100.0),
    "style_transfer": (
        ["--steps", "12", "--size", "32", "--picture", "{folder}/picture.png"],
        "loss left: ",
        0.1,
        60.0,
    ),
}


def run(*command: str) -> str:
    # Threads that spin take the cores from the other tests.
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def number_after(words: str, output: str) -> float:
    found = re.search(re.escape(words) + r"(-?[\d.]+\d)", output)
    assert found, output
    return float(found.group(1))


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_learns(example: str, tmp_path: Path) -> None:
    arguments, words, low, high = EXAMPLES[example]
    output = run(f"examples/{example}.py", *[argument.format(folder=tmp_path) for argument in arguments])
    assert low < number_after(words, output) < high
    assert ("--picture" in arguments) == (tmp_path / "picture.png").exists()


def test_the_convnet_goes_on_where_it_was(tmp_path: Path) -> None:
    arguments = ["examples/lenet.py", "--steps", "2", "--batch", "8", "--model_dir", str(tmp_path)]
    assert "from step 0 to 2." in run(*arguments)
    assert "from step 2 to 4." in run(*arguments)
    assert list(tmp_path.glob("events.out.tfevents.*")) and (tmp_path / "model.ckpt-4.index").exists()


def test_the_demo_draws_its_loss(tmp_path: Path) -> None:
    output = run("examples/lenet.py", "--steps", "3", "--batch", "8", "--model_dir", str(tmp_path))
    assert f"The loss, as a picture: {tmp_path}/loss.png" in output
    with Image.open(tmp_path / "loss.png") as image:
        assert image.size == (640, 320)


def test_towers_learn_with_a_client_each() -> None:
    output = run("examples/data_parallel.py", "--steps", "120", "--asynchronous")
    assert 60 < number_after("Held-out accuracy: ", output) <= 100


def test_every_example_is_described() -> None:
    table = (ROOT / "docs/examples.md").read_text()
    programs = [path.name for path in (ROOT / "examples").glob("*.py")]
    assert programs and [name for name in programs if f"[{name}](../examples/{name})" not in table] == []


def test_a_cart_that_is_pushed_one_way_falls_the_other() -> None:
    carts = runpy.run_path(str(ROOT / "examples/cart_pole.py"))["CartPoles"](50, limit=30, seed=3)
    for age in range(1, 12):
        following, fallen, ended, ages = carts.step(np.ones(50, np.int64))
        if ended.any():
            break
        assert (ages == age).all()
    assert 7 < age < 12 and (following[ended, 2] < 0).all() and (following[:, 0] > 0).all() and (fallen == ended).all()
    assert (carts.age[ended] == 0).all() and (np.abs(carts.state[ended]) <= 0.05).all()


def test_the_tiny_system_learns_xor() -> None:
    assert runpy.run_path(str(ROOT / "docs/tiny.py"))["main"]() < 1e-3
