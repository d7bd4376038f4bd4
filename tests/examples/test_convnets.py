"""The convolutional networks of the examples have the sizes of their papers, and train."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from examples import models

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = {
    "alexnet": 61_100_840,
    "overfeat": 145_920_872,
    "vgg_a": 132_863_336,
    "googlenet": 6_998_552,
    "inception_v3": 23_834_568,
    "resnet_50": 25_557_032,
}


def test_every_network_is_listed() -> None:
    files = {path.stem for path in (ROOT / "examples/models").glob("*.py")} - {"__init__"}
    assert files == set(models.NAMES) == set(PARAMETERS)


@pytest.mark.parametrize("name", models.NAMES)
def test_a_network_has_the_parameters_of_its_paper(name: str) -> None:
    model = importlib.import_module(f"examples.models.{name}")
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, [2, model.IMAGE_SIZE, model.IMAGE_SIZE, 3])
        assert model.logits(images, 1000, training=False).shape.as_list() == [2, 1000]
        count = sum(math.prod(variable.shape.as_list()) for variable in tf.trainable_variables())
    assert count == PARAMETERS[name]
    assert f"{count:,} parameters with 1,000 classes" in model.__doc__


@pytest.mark.parametrize("training", [False, True])
def test_a_network_computes_scores_of_small_images(training: bool) -> None:
    from examples.models import googlenet

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        scores = googlenet.logits(tf.random_normal([2, 32, 32, 3]), 7, training)
        session.run(tf.global_variables_initializer())
        values = session.run(scores)
    assert values.shape == (2, 7) and np.isfinite(values).all() and values.std() > 0


def test_a_network_trains_on_images_again_and_again() -> None:
    arguments = [
        "--model",
        "googlenet",
        "--batch",
        "2",
        "--steps",
        "6",
        "--size",
        "32",
        "--classes",
        "4",
        "--rate",
        "0.1",
    ]
    output = _run(*arguments)
    assert "googlenet: 5,977,652 parameters" in output
    first, last = map(float, re.search(r"Loss: ([\d.]+) at first, ([\d.]+) at last", output).groups())  # type: ignore[union-attr]
    assert last < first
    assert re.search(r"[\d.]+ images per second", output)


def test_a_network_trains_on_digits() -> None:
    output = _run("--model", "googlenet", "--images", "mnist", "--batch", "2", "--steps", "1", "--size", "32")
    assert re.search(r"Training accuracy: [\d.]+%", output)


def _run(*arguments: str) -> str:
    command = [sys.executable, "examples/train_convnet.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
