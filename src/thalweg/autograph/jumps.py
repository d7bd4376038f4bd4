"""Takes `break`, `continue` and early `return` out of loops and branches: flags and conditions do what they did.

What follows a branch that always jumps becomes the other branch. Where a statement may jump and may not, what follows
it runs under the condition that it did not. The result is Python of the same meaning, without a jump out of a block.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from thalweg.autograph.names import FUNCTIONS, same_scope

RESULT: Final = "ag__result"
RETURNED: Final = "ag__returned"
_JUMPS: Final = (ast.Return, ast.Break, ast.Continue)


class Unsupported(Exception):
    """A statement that cannot be converted: what it is, and its line."""

    def __init__(self, message: str, line: int) -> None:
        """Keeps message and line."""
        super().__init__(message)
        self.line = line


class _Loop(NamedTuple):
    """The flags of the loop around a statement."""

    broken: str
    continued: str


class Jumps:
    """Lowers the jumps of one function."""

    def __init__(self, unique: Callable[[str], str]) -> None:
        """`unique` makes names for flags."""
        self._unique = unique
        self._lowered_return = False

    def lower(self, body: list[Any]) -> list[Any]:
        """The body of a function without jumps out of blocks, but for returns where the function's own block ends."""
        if any(isinstance(node, ast.Return) for node in same_scope(body)) and not _always(body):
            end = ast.Return(value=ast.Constant(value=None))
            body = [*body, ast.copy_location(end, body[-1])]
        lowered, _ = self._block(body, None, own_block=True)
        if self._lowered_return:
            lowered.append(_at(lowered[-1], ast.Return(value=_name(RESULT))))
            lowered.insert(0, _at(lowered[0], _assign(RETURNED, False)))
        return _without_unread(lowered)

    def _block(self, body: Sequence[Any], loop: _Loop | None, own_block: bool) -> tuple[list[Any], set[str]]:
        """Statements in the place of a block, and the flags that they may set."""
        out: list[Any] = []
        pending = list(body)
        while pending:
            statement = pending.pop(0)
            if isinstance(statement, _JUMPS):
                out += self._jump(statement, loop, own_block)
                return out, self._flags(statement, loop) if not own_block else set()
            if isinstance(statement, ast.If) and _has_jump([statement], own_block):
                _absorb(statement, pending)
            flags, trailing = self._statement(statement, loop, own_block)
            out.append(statement)
            if isinstance(statement, (ast.For, ast.While)) and getattr(statement, "flag_starts", None):
                out[-1:] = [*statement.flag_starts, statement]  # type: ignore[union-attr]
            pending = trailing + pending
            if flags and pending:
                rest, more = self._block(pending, loop, own_block=False)
                out.append(_at(pending[0], ast.If(test=_none_of(flags), body=rest, orelse=[])))
                return out, flags | more
            if flags:
                return out, flags
        return out, set()

    def _jump(self, statement: Any, loop: _Loop | None, own_block: bool) -> list[Any]:
        if not isinstance(statement, ast.Return):
            assert loop is not None
            flag = loop.broken if isinstance(statement, ast.Break) else loop.continued
            return [_at(statement, _assign(flag, True))]
        if own_block:
            return [statement]
        self._lowered_return = True
        value = statement.value or ast.Constant(value=None)
        result = ast.Assign(targets=[ast.Name(id=RESULT, ctx=ast.Store())], value=value)
        return [_at(statement, result), _at(statement, _assign(RETURNED, True))]

    def _flags(self, statement: Any, loop: _Loop | None) -> set[str]:
        if isinstance(statement, ast.Return):
            return {RETURNED}
        assert loop is not None
        return {loop.broken if isinstance(statement, ast.Break) else loop.continued}

    def _statement(self, statement: Any, loop: _Loop | None, own_block: bool) -> tuple[set[str], list[Any]]:
        """Lowers what is inside of a statement; the flags that it may set, and statements to run after it."""
        if isinstance(statement, ast.If):
            statement.body, flags = self._block(statement.body, loop, False)
            statement.orelse, more = self._block(statement.orelse, loop, False)
            return flags | more, []
        if isinstance(statement, (ast.For, ast.While)):
            return self._loop(statement)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            statement.body, flags = self._block(statement.body, loop, own_block)
            return flags, []
        if isinstance(statement, (ast.Try, ast.TryStar)):
            return self._try(statement, loop, own_block), []
        if isinstance(statement, ast.Match):
            flags = set()
            for case in statement.cases:
                case.body, more = self._block(case.body, loop, False)
                flags |= more
            return flags, []
        return set(), []

    def _loop(self, statement: Any) -> tuple[set[str], list[Any]]:
        inner = _Loop(self._unique("break"), self._unique("continue"))
        statement.body, flags = self._block(statement.body, inner, False)
        starts = []
        if inner.continued in flags:
            statement.body.insert(0, _at(statement, _assign(inner.continued, False)))
        ends = flags - {inner.continued}
        if inner.broken in flags:
            starts.append(_at(statement, _assign(inner.broken, False)))
        statement.flag_starts = starts
        if ends:
            going_on = _at(statement, _none_of(ends))
            if isinstance(statement, ast.While):
                statement.test = _at(statement, ast.BoolOp(op=ast.And(), values=[going_on, statement.test]))
            else:
                statement.extra_test = going_on
        trailing = statement.orelse
        statement.orelse = []
        if trailing and inner.broken in flags:
            trailing = [_at(trailing[0], ast.If(test=_none_of({inner.broken}), body=trailing, orelse=[]))]
        return ends - {inner.broken}, trailing

    def _try(self, statement: Any, loop: _Loop | None, own_block: bool) -> set[str]:
        if _has_jump(statement.finalbody, own_block=False):
            raise Unsupported("a jump out of a `finally` block discards exceptions", statement.finalbody[0].lineno)
        jumps_before_else = bool(statement.orelse) and _has_jump(statement.body, own_block)
        statement.body, flags = self._block(statement.body, loop, own_block)
        for handler in statement.handlers:
            handler.body, more = self._block(handler.body, loop, own_block)
            flags |= more
        if statement.orelse:
            statement.orelse, more = self._block(statement.orelse, loop, own_block)
            if jumps_before_else and flags:
                first = statement.orelse[0]
                statement.orelse = [_at(first, ast.If(test=_none_of(flags), body=statement.orelse, orelse=[]))]
            flags |= more
        return flags


def _always(body: Sequence[Any]) -> bool:
    """Whether a block never runs to its end."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return isinstance(last, (*_JUMPS, ast.Raise))


def _has_jump(body: Sequence[Any], own_block: bool) -> bool:
    """Whether a block has a jump that leaves it: breaks of loops inside do not."""
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, _JUMPS):
            return True
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, (ast.For, ast.While)):
            if any(isinstance(each, ast.Return) for each in same_scope([node])) or _has_jump(node.orelse, own_block):
                return True
            continue
        stack.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    return False


def _absorb(statement: ast.If, pending: list[Any]) -> None:
    """Moves what follows a branch that always jumps into the other branch."""
    always_then, always_else = _always(statement.body), _always(statement.orelse)
    if always_then and not always_else:
        statement.orelse = [*statement.orelse, *pending]
    elif always_else and not always_then:
        statement.body = [*statement.body, *pending]
    elif not always_then:
        return
    pending.clear()


def _without_unread(body: list[Any]) -> list[Any]:
    """Removes assignments to flags that nothing reads."""
    read = set()
    for statement in body:
        for node in ast.walk(statement):
            for each in (node, *ast.walk(node.extra_test)) if hasattr(node, "extra_test") else (node,):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                    read.add(each.id)

    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> Any:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id.startswith("ag__") and target.id not in read:
                return None
            return node

        def generic_visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, (ast.expr, *FUNCTIONS, ast.ClassDef)):
                return node
            super().generic_visit(node)
            if getattr(node, "body", None) == []:
                node.body = [_at(node, ast.Pass())]  # type: ignore[attr-defined]
            return node

    return [kept for statement in body if (kept := Remover().visit(statement)) is not None]


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _assign(name: str, value: bool) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=ast.Constant(value=value))


def _none_of(flags: set[str]) -> Any:
    tests: list[ast.expr] = [ast.UnaryOp(op=ast.Not(), operand=_name(flag)) for flag in sorted(flags)]
    return tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=tests)


def _at(place: Any, node: Any) -> Any:
    """Gives a node, and those below it that have none, the position of another."""
    if not hasattr(place, "lineno"):
        return node
    for each in ast.walk(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, place)
    return node
