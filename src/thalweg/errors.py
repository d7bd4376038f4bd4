"""The errors a program can catch: OpError and one subclass per error code, with TensorFlow's names and numbers.

The native core reports a code and a message; `error_from_code` turns them into the exception. An error knows the
operation it comes from, and its text ends with the line of the user's program that created that operation.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Final

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16

_PACKAGE_DIRECTORY: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


class OpError(Exception):
    """The failure of an operation, and the base of every error that Thalweg raises while a step runs.

    Attributes:
        error_code: One of the codes of this module.
        message: What went wrong, without the operation.
        op: The Operation that failed, or None if it is not known (or was left behind in another process).
        node_def: The NodeDef of the operation, or None.
        created_at: `file:line, in function` of the user's code that created the operation, or None.
    """

    def __init__(self, node_def: Any, op: Any, message: Any, error_code: int, *args: Any) -> None:
        """Creates an error.

        Args:
            node_def: The NodeDef that failed, or None.
            op: The Operation that failed, or None.
            message: What went wrong.
            error_code: One of the codes of this module.
            *args: Further values, accepted for TensorFlow's sake; a dict of payloads in its case.
        """
        self.message: str = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        super().__init__(self.message)
        self.error_code = error_code
        self.op = op
        self.node_def = node_def
        self.created_at: str | None = creation_line(op) or getattr(node_def, "created_at", None)
        self.experimental_payloads: dict[Any, Any] = args[0] if args and isinstance(args[0], dict) else {}

    def __str__(self) -> str:
        source = self.op if self.op is not None else self.node_def
        name = getattr(source, "name", None)
        if name is None:
            return self.message
        op_type = getattr(source, "type", None) or getattr(source, "op", None)
        where = f", created at {self.created_at}" if self.created_at else ""
        return f"{self.message}\n\t [[node {name}{f' ({op_type})' if op_type else ''}{where}]]"

    def __reduce__(self) -> tuple[Any, ...]:
        # An Operation cannot leave its process. What str() shows of it can: as a node, and as the line it came from.
        node = self.node_def
        source = self.op if self.op is not None else node
        if source is not None:
            op_type = getattr(source, "type", None) or getattr(source, "op", None)
            if type(node) is not FailedNode:
                node = FailedNode(str(getattr(source, "name", "")), str(op_type or ""))
        return _rebuild, (type(self), self.error_code, self.message, node, self.created_at, self.experimental_payloads)


class FailedNode:
    """The node that failed, where its Operation is not known or in another process; takes the place of its NodeDef.

    Attributes:
        name: Its name.
        op: Its op type.
        created_at: Where the program created it, as `creation_line` says it, or None.
    """

    def __init__(self, name: str, op: str, created_at: str | None = None) -> None:
        """Keeps name, op type and creation line."""
        self.name = name
        self.op = op
        self.created_at = created_at


_CODE_TO_TYPE: Final[dict[int, type[_CodedError]]] = {}


class _CodedError(OpError):
    """An OpError whose class says which code it has."""

    code: ClassVar[int] = UNKNOWN

    def __init_subclass__(cls, code: int | None = None) -> None:
        if code is not None:  # A program's own subclass keeps its parent's code and is not in the table.
            cls.code = code
            _CODE_TO_TYPE[code] = cls

    def __init__(self, node_def: Any, op: Any, message: Any, *args: Any) -> None:
        super().__init__(node_def, op, message, self.code, *args)


class CancelledError(_CodedError, code=CANCELLED):
    """The operation or step was cancelled, for instance because its session or its queue was closed."""


class UnknownError(_CodedError, code=UNKNOWN):
    """An error without a better class, for instance an exception in a Python function that a step called."""

    def __init__(self, node_def: Any, op: Any, message: Any, error_code: int = UNKNOWN, *args: Any) -> None:
        """Creates an error; `error_code` may be a number that this version does not know."""
        super().__init__(node_def, op, message, *args)
        self.error_code = error_code


class InvalidArgumentError(_CodedError, code=INVALID_ARGUMENT):
    """An operation got an input or attribute that it can never accept: a wrong shape, an index out of range."""


class DeadlineExceededError(_CodedError, code=DEADLINE_EXCEEDED):
    """The time allowed for a step or call ran out before it finished."""


class NotFoundError(_CodedError, code=NOT_FOUND):
    """A requested object does not exist: a file, a directory, a tensor in a checkpoint."""


class AlreadyExistsError(_CodedError, code=ALREADY_EXISTS):
    """An object to be created exists already: a file, a resource."""


class PermissionDeniedError(_CodedError, code=PERMISSION_DENIED):
    """The caller may not do this, for instance write a file."""


class ResourceExhaustedError(_CodedError, code=RESOURCE_EXHAUSTED):
    """A resource is exhausted: memory, disk space, a quota."""


class FailedPreconditionError(_CodedError, code=FAILED_PRECONDITION):
    """The system is in the wrong state for the operation, for instance a variable was read before it had a value."""


class AbortedError(_CodedError, code=ABORTED):
    """The operation was aborted, usually by a concurrent one, or since a task restarted; it can be tried again."""


class OutOfRangeError(_CodedError, code=OUT_OF_RANGE):
    """The end was passed: of a file, of a dataset, of the last element of a closed queue."""


class UnimplementedError(_CodedError, code=UNIMPLEMENTED):
    """The operation is not implemented: no kernel for this device and type, or an option that is not supported."""


class InternalError(_CodedError, code=INTERNAL):
    """An invariant of Thalweg is broken: please report it."""


class UnavailableError(_CodedError, code=UNAVAILABLE):
    """A task or service cannot be reached at the moment; trying again may help."""


class DataLossError(_CodedError, code=DATA_LOSS):
    """Data is lost or corrupt: a checksum does not match, a file ends too early."""


class UnauthenticatedError(_CodedError, code=UNAUTHENTICATED):
    """The caller's credentials are missing or not valid."""


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of the errors with a code; raises KeyError for a number that is no error code."""
    return _CODE_TO_TYPE[error_code]


def error_code_from_exception_type(cls: type[BaseException]) -> int:
    """The code of an error class, also of a program's own subclass; UNKNOWN for any other exception."""
    return cls.code if issubclass(cls, _CodedError) else UNKNOWN


def error_from_code(error_code: int, message: Any, op: Any = None, node_def: Any = None) -> OpError:
    """Makes the exception of a code, ready to be raised. A code this version does not know gives an UnknownError.

    Example:
        >>> error_from_code(NOT_FOUND, 'no such file')
        NotFoundError('no such file')
    """
    error_type = _CODE_TO_TYPE.get(error_code)
    if error_type is None:
        return UnknownError(node_def, op, message, error_code)
    return error_type(node_def, op, message)


def creation_line(op: Any) -> str | None:
    """Finds where the user's program created an operation.

    Args:
        op: An object with a `traceback`, outermost frame first, whose frames are `(file, line, function, ...)` tuples
            or `traceback.FrameSummary` objects.

    Returns:
        `file:line, in function` of the innermost frame outside Thalweg (of the innermost frame, if all are inside), or
        None if there is no traceback.
    """
    frames = getattr(op, "traceback", None)
    if not frames:
        return None
    chosen = None
    for frame in reversed(list(frames)):
        file, line, function = frame[0], frame[1], frame[2]
        chosen = chosen or (file, line, function)
        if not os.path.abspath(file).startswith(_PACKAGE_DIRECTORY):
            chosen = (file, line, function)
            break
    return None if chosen is None else f"{chosen[0]}:{chosen[1]}, in {chosen[2]}"


def _rebuild(
    error_type: type[OpError], code: int, message: str, node: Any, created_at: str | None, payloads: dict[Any, Any]
) -> OpError:
    """Makes the error that was pickled, without calling the constructor, which a subclass may have changed."""
    error = error_type.__new__(error_type)
    OpError.__init__(error, node, None, message, code, payloads)
    error.created_at = created_at
    return error
