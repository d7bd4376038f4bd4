"""Liveness: after which statements the value of a name may still be read."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from thalweg.autograph.names import Names


class Liveness:
    """Walks a function without jumps backwards, and notes on its branches and loops what is live after them.

    Every `if`, `while` and `for` gets the attributes `live_after`, and loops `live_head`: the names that are live where
    an iteration begins.
    """

    def __init__(self, functions: dict[str, Names], escaping: set[str]) -> None:
        """Takes what nested functions do, and the names that are read by others: globals and nonlocals."""
        self._functions = functions
        self._always = set(escaping)  # What handlers and the ends of `try` read is live throughout.

    def block(self, body: Sequence[Any], after: set[str]) -> set[str]:
        """The names that are live before a block, if those in `after` are live behind it."""
        live = after | self._always
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _names(self, node: Any) -> Names:
        return Names(self._functions).add(node)

    def _statement(self, node: Any, after: set[str]) -> set[str]:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            found: set[str] = method(node, after)
            return found
        names = self._names(node)
        return (after - _certain(node)) | names.reads

    def _Return(self, node: ast.Return, after: set[str]) -> set[str]:
        return self._always | self._names(node.value).reads

    def _If(self, node: Any, after: set[str]) -> set[str]:
        node.live_after = after
        return self._names(node.test).reads | self.block(node.body, after) | self.block(node.orelse, after)

    def _While(self, node: Any, after: set[str]) -> set[str]:
        node.live_after = after
        head = after | self._names(node.test).reads
        while True:
            more = head | self.block(node.body, head)
            if more == head:
                break
            head = more
        node.live_head = head
        return head

    def _For(self, node: Any, after: set[str]) -> set[str]:
        node.live_after = after
        targets = self._names(node.target)
        head = after | self._names(getattr(node, "extra_test", None)).reads
        while True:
            more = head | (self.block(node.body, head) - targets.bound) | targets.reads
            if more == head:
                break
            head = more
        node.live_head = head
        return head | self._names(node.iter).reads

    def _With(self, node: Any, after: set[str]) -> set[str]:
        live = self.block(node.body, after)
        for item in reversed(node.items):
            live = (live - self._names(item.optional_vars).bound) | self._names(item).reads
        return live

    def _Try(self, node: Any, after: set[str]) -> set[str]:
        outer = self._always
        end = self.block(node.finalbody, after)
        self._always = outer | end
        handled = set(end)
        for handler in node.handlers:
            live = self.block(handler.body, end) | self._names(handler.type).reads
            handled |= live - ({handler.name} if handler.name else set())
        otherwise = self.block(node.orelse, end)
        self._always = outer | handled
        live = self.block(node.body, otherwise)
        self._always = outer
        return live | handled

    _TryStar = _Try

    def _Match(self, node: Any, after: set[str]) -> set[str]:
        live = set(after)
        for case in node.cases:
            bound = self._names(case.pattern)
            inner = self.block(case.body, after) | self._names(case.guard).reads
            live |= (inner - bound.bound) | bound.reads
        return live | self._names(node.subject).reads


def _certain(node: Any) -> set[str]:
    """The names that a simple statement binds whatever happens."""
    if isinstance(node, ast.Assign):
        return {each.id for target in node.targets for each in _plain_targets(target)}
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return {each.id for each in _plain_targets(node.target)}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return Names().add(node).bound
    if isinstance(node, ast.Delete):
        return {each.id for target in node.targets for each in _plain_targets(target)}
    return set()


def _plain_targets(target: Any) -> list[ast.Name]:
    if isinstance(target, ast.Name):
        return [target]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for each in target.elts for name in _plain_targets(each)]
    return _plain_targets(target.value) if isinstance(target, ast.Starred) else []
