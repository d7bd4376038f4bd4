"""Tests of the error classes: their codes, what they print, and that they survive a pickle."""

import copy
import doctest
import os
import pickle
import traceback
from typing import Any

import pytest

from thalweg import errors

CODES = {
    "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5, "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10, "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15, "UNAUTHENTICATED": 16,
}  # fmt: skip

INSIDE = os.path.join(os.path.dirname(errors.__file__), "ops", "math.py")


class FakeOp:
    """The part of an Operation that an error reads; like one, it cannot be pickled."""

    name = "layer/mm"
    type = "MatMul"

    def __init__(self, frames: Any) -> None:
        self.traceback = frames

    def __reduce__(self) -> Any:
        raise TypeError("an Operation cannot be pickled")


USER_FRAMES = [("/home/me/train.py", 3, "<module>"), ("/home/me/model.py", 12, "build"), (INSIDE, 99, "matmul")]


class OwnError(errors.NotFoundError):
    """A program's own error."""

    def __init__(self, path: str) -> None:
        super().__init__(None, None, f"no {path}")
        self.path = path


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_each_code_has_its_class(name: str, code: int) -> None:
    class_name = "".join(word.capitalize() for word in name.split("_")) + "Error"
    error_type: Any = getattr(errors, class_name)
    assert getattr(errors, name) == code
    assert errors.exception_type_from_error_code(code) is error_type
    assert errors.error_code_from_exception_type(error_type) == code
    error = error_type("node", None, "went wrong")
    assert isinstance(error, errors.OpError)
    assert (error.error_code, error.message, error.op, error.node_def) == (code, "went wrong", None, "node")
    assert type(errors.error_from_code(code, "text")) is error_type


def test_an_unknown_code_becomes_an_unknown_error_that_keeps_it() -> None:
    error = errors.error_from_code(77, "from the future")
    assert type(error) is errors.UnknownError
    assert error.error_code == 77
    assert pickle.loads(pickle.dumps(error)).error_code == 77
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(77)


def test_the_code_of_other_exceptions_is_unknown() -> None:
    assert errors.error_code_from_exception_type(ValueError) == errors.UNKNOWN
    assert errors.error_code_from_exception_type(errors.OpError) == errors.UNKNOWN


def test_a_programs_own_subclass_keeps_the_code_and_does_not_replace_the_class() -> None:
    assert errors.error_code_from_exception_type(OwnError) == errors.NOT_FOUND
    assert errors.exception_type_from_error_code(errors.NOT_FOUND) is errors.NotFoundError
    error = pickle.loads(pickle.dumps(OwnError("x")))
    assert type(error) is OwnError
    assert error.message == "no x"


def test_without_an_operation_the_text_is_the_message() -> None:
    error = errors.InvalidArgumentError(None, None, "bad shape")
    assert str(error) == "bad shape"
    assert repr(error) == "InvalidArgumentError('bad shape')"
    assert error.created_at is None


def test_the_text_names_the_operation_and_the_users_line() -> None:
    error = errors.InvalidArgumentError(None, FakeOp(USER_FRAMES), "bad shape")
    assert str(error) == "bad shape\n\t [[node layer/mm (MatMul), created at /home/me/model.py:12, in build]]"
    assert error.message == "bad shape"


def test_frame_summaries_are_understood_too() -> None:
    error = errors.InternalError(None, FakeOp(traceback.extract_stack()), "oh")
    assert error.created_at is not None
    assert error.created_at.startswith(f"{__file__}:")
    assert error.created_at.endswith("in test_frame_summaries_are_understood_too")


def test_frames_all_inside_thalweg_give_the_innermost() -> None:
    frames = [(INSIDE, 1, "outer"), (INSIDE, 2, "inner")]
    assert errors.creation_line(FakeOp(frames)) == f"{INSIDE}:2, in inner"


@pytest.mark.parametrize("frames", [None, [], ()])
def test_an_operation_without_a_traceback_is_still_named(frames: Any) -> None:
    assert str(errors.AbortedError(None, FakeOp(frames), "gone")) == "gone\n\t [[node layer/mm (MatMul)]]"


@pytest.mark.parametrize("round_trip", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_or_pickle_prints_the_same_though_the_operation_stays_behind(round_trip: Any) -> None:
    error = errors.OutOfRangeError(None, FakeOp(USER_FRAMES), "end of sequence", {"key": b"value"})
    once = round_trip(error)
    twice = round_trip(once)
    for result in (once, twice):
        assert type(result) is errors.OutOfRangeError
        assert str(result) == str(error)
        assert result.op is None
        assert result.error_code == errors.OUT_OF_RANGE
        assert result.experimental_payloads == {"key": b"value"}


def test_messages_of_any_type_become_text() -> None:
    assert errors.UnknownError(None, None, b"bytes \xff").message == "bytes \ufffd"
    assert errors.UnknownError(None, None, 5).message == "5"


def test_the_base_class_takes_any_code() -> None:
    error = errors.OpError(None, None, "x", errors.DATA_LOSS)
    assert error.error_code == errors.DATA_LOSS
    assert pickle.loads(pickle.dumps(error)).error_code == errors.DATA_LOSS


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(errors).failed == 0
