"""The errors in docs/troubleshooting.md come as they are quoted there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import thalweg as tf
from thalweg.platform import cpu_info

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
_EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)\n```", re.DOTALL)
EXAMPLES = _EXAMPLE.findall(PAGE.read_text())


def pattern(quoted: str) -> str:
    """A regular expression for a message in which `…` stands for anything."""
    return re.escape(quoted).replace("…", "(?s:.*)")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 15


@pytest.mark.parametrize(("code", "message"), EXAMPLES, ids=[message.split("\n")[0][:40] for _, message in EXAMPLES])
def test_an_example_fails_with_the_quoted_message(code: str, message: str) -> None:
    with tf.Graph().as_default(), pytest.raises(Exception) as raised:
        exec(compile(code, "train.py", "exec"), {"tf": tf, "np": np, "__name__": "train"})
    assert re.fullmatch(pattern(message), f"{raised.type.__name__}: {raised.value}"), raised.value


def test_the_message_about_an_old_processor() -> None:
    model = "Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz"
    with pytest.raises(ImportError) as raised:
        cpu_info.require_instructions(cpu_info.CpuInfo(model, frozenset({"sse4_2", "avx"})))
    assert f"ImportError: {raised.value}" in PAGE.read_text()
