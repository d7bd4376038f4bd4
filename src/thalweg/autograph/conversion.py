"""Converts functions: finds their source, converts it, compiles it, and keeps the result for each code object.

The new code object takes the place of the old one in a new function: it has the same globals, the same cells for the
variables around it, and the same defaults. Its file and lines are those of the user, so that tracebacks, debuggers and
the creation lines of operations need no translation.
"""

from __future__ import annotations

import ast
import threading
import types
import weakref
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from thalweg.autograph.expressions import OPERATORS
from thalweg.autograph.jumps import Unsupported
from thalweg.autograph.source import SourceMissing, find
from thalweg.autograph.statements import convert_function, convert_lambda

_FUTURES: Final = 0x1FE0000  # The flags of `from __future__` statements.
_OPTIMIZED: Final = 0x1  # The flag of functions, which code of classes and modules lacks.


class ConversionError(Exception):
    """A function that cannot be converted: why, and where it is."""


class _Converted(NamedTuple):
    filename: str
    code: CodeType | None
    tree: Any
    problem: str | None


_lock: Final = threading.RLock()
_converted: Final[weakref.WeakKeyDictionary[CodeType, _Converted]] = weakref.WeakKeyDictionary()
_results: Final[weakref.WeakSet[CodeType]] = weakref.WeakSet()  # Code objects that conversion made.


def is_converted(code: CodeType) -> bool:
    """Whether a code object is a result of conversion."""
    return code in _results


def converted_function(function: FunctionType, operators: Any) -> FunctionType:
    """The converted form of a Python function, sharing its globals, variables and defaults.

    Args:
        function: The function.
        operators: What the name of the operators stands for in it.

    Raises:
        ConversionError: If its source is not there, or it has something that cannot be converted.
    """
    code = _convert(function.__code__, function.__globals__).code
    assert code is not None
    cells: dict[str, Any] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[OPERATORS] = types.CellType(operators)
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__doc__ = function.__doc__
    made.__module__ = function.__module__
    made.__annotations__ = function.__annotations__
    made.__dict__.update(function.__dict__)
    return made


def converted_text(function: FunctionType) -> str:
    """The converted form of a function as source code.

    Raises:
        ConversionError: As `converted_function` does.
    """
    return ast.unparse(_convert(function.__code__, function.__globals__).tree)


def _convert(code: CodeType, module_globals: Any) -> _Converted:
    with _lock:
        found = _converted.get(code)
        if found is None or found.filename != code.co_filename:  # Equal code objects may be from two files.
            found = _converted[code] = _converted_code(code, module_globals)
    if found.problem is not None:
        raise ConversionError(found.problem)
    return found


def _converted_code(code: CodeType, module_globals: Any) -> _Converted:
    try:
        source = find(code, module_globals)
        node = source.node
        if source.class_name is not None:
            node = _Mangling(source.class_name).visit(node)
        in_class = "__class__" in code.co_freevars
        if isinstance(node, ast.Lambda):
            convert_lambda(node, in_class)
        else:
            convert_function(node, in_class)
    except SourceMissing as e:
        return _Converted(code.co_filename, None, None, f"{e}")
    except Unsupported as e:
        place = f'File "{code.co_filename}", line {e.line}, in {code.co_name}'
        return _Converted(code.co_filename, None, None, f"{e} ({place})")
    result = _compile(node, code)
    return _Converted(code.co_filename, result, node, None)


def _compile(node: Any, original: CodeType) -> CodeType:
    """Compiles a function within another one that has the variables around it as parameters."""
    names = [*original.co_freevars, OPERATORS]
    args = node.args
    defaults = (args.defaults, args.kw_defaults)  # They were evaluated when the original was defined.
    args.defaults = [ast.Constant(value=None) for _ in args.defaults]
    args.kw_defaults = [d if d is None else ast.Constant(value=None) for d in args.kw_defaults]
    is_lambda = isinstance(node, ast.Lambda)
    if not is_lambda:
        node.decorator_list = []
        node.returns = None
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if arg is not None:
                arg.annotation = None
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    factory = ast.FunctionDef(
        name="ag__factory", args=parameters, body=[ast.Return(value=node) if is_lambda else node], decorator_list=[],
        returns=None, type_comment=None,
    )  # fmt: skip
    ast.copy_location(factory, node)
    module = ast.fix_missing_locations(ast.Module(body=[factory], type_ignores=[]))
    flags = original.co_flags & _FUTURES
    compiled = compile(module, original.co_filename, "exec", flags=flags, dont_inherit=True)
    args.defaults, args.kw_defaults = defaults
    outer = next(const for const in compiled.co_consts if isinstance(const, CodeType))
    inner = next(const for const in outer.co_consts if isinstance(const, CodeType))
    return _renamed(inner, original, is_top=True)


def _renamed(code: CodeType, original: CodeType, is_top: bool) -> CodeType:
    """Gives functions that conversion made the name of the user's function around them, and notes all of them."""
    made_here = code.co_name.startswith("ag__")
    owner = original if is_top or made_here else code
    name, qualified = owner.co_name, owner.co_qualname
    if not is_top and not made_here:
        qualified = f"{original.co_qualname}.<locals>.{code.co_name}"
        owner = code.replace(co_qualname=qualified)
    constants = tuple(
        _renamed(const, owner, False) if isinstance(const, CodeType) and _is_function(const) else const
        for const in code.co_consts
    )
    result = code.replace(co_name=name, co_qualname=qualified, co_consts=constants)
    _results.add(result)
    return result


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & _OPTIMIZED)


class _Mangling(ast.NodeTransformer):
    """Makes names with two leading underscores what they are in their class."""

    def __init__(self, class_name: str) -> None:
        self._prefix = f"_{class_name.lstrip('_')}"
        self._applies = bool(class_name.strip("_"))

    def _mangled(self, name: str) -> str:
        if self._applies and name.startswith("__") and not name.endswith("__") and "." not in name:
            return self._prefix + name
        return name

    def visit_ClassDef(self, node: Any) -> Any:
        return node

    def visit_Name(self, node: Any) -> Any:
        node.id = self._mangled(node.id)
        return node

    def visit_Attribute(self, node: Any) -> Any:
        node.attr = self._mangled(node.attr)
        return self.generic_visit(node)

    def visit_arg(self, node: Any) -> Any:
        node.arg = self._mangled(node.arg)
        return node

    def visit_keyword(self, node: Any) -> Any:
        node.arg = node.arg and self._mangled(node.arg)
        return self.generic_visit(node)

    def visit_Global(self, node: Any) -> Any:
        node.names = [self._mangled(name) for name in node.names]
        return node

    visit_Nonlocal = visit_Global
