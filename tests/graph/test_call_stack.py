"""Where an operation was created: the captured call stack, whole for shallow programs, cut off for deep ones."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from thalweg.graph import source_location


def _captured_below(depth: int, skip: int = 1) -> tuple[Any, ...]:
    if depth:
        return _captured_below(depth - 1, skip)
    return source_location.capture(skip)


def test_the_innermost_frame_comes_first_with_its_instruction() -> None:
    captured = _captured_below(3)
    assert captured[:8:2] == (_captured_below.__code__,) * 4
    assert captured[8] is sys._getframe().f_code
    assert all(isinstance(offset, int) and offset >= 0 for offset in captured[1::2])
    file, line, function, text = source_location.resolve(captured)[-1]
    assert (file, function, text) == (__file__, "_captured_below", "return source_location.capture(skip)")
    assert line == _captured_below.__code__.co_firstlineno + 3


def test_skipped_frames_are_left_out() -> None:
    assert _captured_below(2, skip=4)[0] is sys._getframe().f_code


def test_a_deep_stack_loses_its_outermost_frames() -> None:
    captured = _captured_below(100)
    assert len(captured) == 2 * 60
    assert set(captured[::2]) == {_captured_below.__code__}


def test_more_skipped_frames_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="not deep enough"):
        source_location.capture(10_000)
