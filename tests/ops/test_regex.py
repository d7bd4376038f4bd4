"""Regular expressions: what RE2 accepts, refuses, finds and replaces, in linear time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf

# Recorded from TensorFlow 2.21's RegexFullMatch and RegexReplace; texts are bytes, as Latin-1.
CASES = json.loads((Path(__file__).parents[1] / "data" / "regex_cases.json").read_text())


def test_results_are_those_of_tensorflow() -> None:
    text, pattern, rewrite = (tf.placeholder(tf.string, []) for _ in range(3))
    full = tf.strings.regex_full_match(text, pattern)
    fetches = [full] + [tf.regex_replace(text, pattern, rewrite, replace_global=all_) for all_ in (True, False)]
    wrong = []
    with tf.Session() as session:
        for case in CASES:
            feeds = {
                text: case["text"].encode("latin-1"),
                pattern: case["pattern"].encode(),
                rewrite: case["rewrite"].encode("latin-1"),
            }
            expected: Any = case.get("error")
            try:
                matches, everywhere, once = session.run(fetches, feeds)
                found: Any = (bool(matches), everywhere.decode("latin-1"), once.decode("latin-1"))
            except tf.errors.InvalidArgumentError as e:
                found = e.message.split("\n")[0] if "\n" not in case["pattern"] else expected
            if expected is None:
                expected = (case["full"], case["all"], case["one"])
            if found != expected and not (isinstance(found, str) and isinstance(expected, str) and expected in found):
                wrong.append((case, found))
    assert wrong == []


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+b", "(a|a?)+b", "(.*a){12}b", "(a{1,30}){1,30}b", "(x+x+)+y"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    text = "a" * 20_000 + "x" * 20_000
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=60_000)) as session:
        assert not session.run(tf.strings.regex_full_match([text], pattern))[0]
        assert session.run(tf.regex_replace([text], pattern, "-"))[0] == text.encode()


def test_a_search_ends_with_its_step() -> None:
    text = tf.placeholder(tf.string, [])
    # Each of very many states of the automaton is new.
    match = tf.strings.regex_full_match(text, "(a|b)*a(a|b){500}a(a|b){400}c")
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=300)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(match, {text: bytes(random.Random(1).choices(b"ab", k=3_000_000))})


def test_deep_patterns_are_refused_not_fatal() -> None:
    with tf.Session() as session:
        for pattern in ("(" * 100_000, "(" * 100_000 + ")" * 100_000, "a" + "(?i)*" * 100_000, "[" * 100_000):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern"):
                session.run(tf.strings.regex_full_match("a", pattern))
