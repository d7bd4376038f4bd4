"""Which names a piece of code reads, binds, or changes in place, and which of them belong to its function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Methods that change the container that they are called on.
GROWING: Final = frozenset({"append", "extend", "insert", "pop"})
CHANGING: Final = GROWING | {"remove", "clear", "update", "setdefault", "popitem", "add", "discard", "sort", "reverse"}


class Names:
    """What a piece of code does with names. Attributes are dotted names, such as `self.x`.

    Attributes:
        reads: Names whose values it may use.
        bound: Names that it may bind or delete.
        items: Names of containers whose items it may assign: of a tensor, this makes another one.
        attributes: Dotted names that it may bind.
        changed: Names and dotted names of containers that it may change in place.
        grown: Those of them that may become longer or shorter.
    """

    def __init__(self, functions: dict[str, Names] | None = None) -> None:
        """Starts empty; `functions` says what nested functions do, by name: naming one may mean calling it."""
        self.reads: set[str] = set()
        self.bound: set[str] = set()
        self.items: set[str] = set()
        self.attributes: set[str] = set()
        self.changed: set[str] = set()
        self.grown: set[str] = set()
        self._functions = functions or {}

    @property
    def writes(self) -> set[str]:
        """Names that may have another value afterwards."""
        return self.bound | self.items

    def add(self, node: Any) -> Names:
        """Adds a statement, an expression, or a list of them."""
        if isinstance(node, (list, tuple)):
            for each in node:
                self.add(each)
        elif node is not None:
            method = getattr(self, f"_{type(node).__name__}", None)
            if method is None:
                for child in ast.iter_child_nodes(node):
                    self.add(child)
            else:
                method(node)
        return self

    def _Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
            return
        self.reads.add(node.id)
        called = self._functions.get(node.id)
        if called is not None:
            self.reads |= called.reads
            self.bound |= called.bound
            self._add_containers(called)

    def forget(self, mine: set[str]) -> None:
        """Removes dotted names and containers of an inner scope."""
        for kind in (self.items, self.attributes, self.changed, self.grown):
            kind.difference_update([name for name in kind if name.partition(".")[0] in mine])

    def _add_containers(self, other: Names) -> None:
        self.items |= other.items
        self.attributes |= other.attributes
        self.changed |= other.changed
        self.grown |= other.grown

    def _AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
        self.add(node.value)
        self.add(node.target)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        self.add(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.add(node.target)

    def _Attribute(self, node: ast.Attribute) -> None:
        self.add(node.value)
        dotted = dotted_name(node)
        if dotted is not None and not isinstance(node.ctx, ast.Load):
            self.attributes.add(dotted)

    def _Subscript(self, node: ast.Subscript) -> None:
        self.add(node.value)
        self.add(node.slice)
        if not isinstance(node.ctx, ast.Load):
            base: Any = node.value
            while isinstance(base, ast.Subscript):
                base = base.value
            dotted = dotted_name(base)
            if dotted is not None:
                self.changed.add(dotted)
                if isinstance(base, ast.Name) and base is node.value:
                    self.items.add(base.id)
                elif base is node.value:
                    self.attributes.add(dotted)

    def _Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            dotted = dotted_name(node.func.value)
            if dotted is not None:
                self.changed.add(dotted)
                if node.func.attr in GROWING:
                    self.grown.add(dotted)
        for child in ast.iter_child_nodes(node):
            self.add(child)

    def _Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)

    _ImportFrom = _Import

    def _ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.bound.add(node.name)
        self.add(node.type)
        self.add(node.body)

    def _MatchAs(self, node: Any) -> None:
        if node.name is not None:
            self.bound.add(node.name)
        self.add(getattr(node, "pattern", None))

    _MatchStar = _MatchAs

    def _MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.bound.add(node.rest)
        self.add(node.keys)
        self.add(node.patterns)

    def _For(self, node: Any) -> None:
        self.add(getattr(node, "extra_test", None))
        for child in ast.iter_child_nodes(node):
            self.add(child)

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        inner = Names(self._functions).add([*node.decorator_list, *node.bases, *node.keywords, *node.body])
        self.reads |= inner.reads

    def _FunctionDef(self, node: Any) -> None:
        self.bound.add(node.name)
        self.add(node.decorator_list)
        self._inner(node)

    _AsyncFunctionDef = _FunctionDef

    def _inner(self, node: Any) -> None:
        self.add([*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)])
        inner = outside_names(node)
        self.reads |= inner.reads

    _Lambda = _inner

    def _of_comprehension(self, node: Any) -> None:
        inner = Names(self._functions)
        for child in ast.iter_child_nodes(node):
            inner.add(child)
        targets = Names().add([generator.target for generator in node.generators]).bound
        walrus = {each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)}
        self.reads |= inner.reads - (targets - walrus)
        self.bound |= inner.bound - (targets - walrus)
        inner.forget(targets - walrus)
        self._add_containers(inner)

    _ListComp = _SetComp = _DictComp = _GeneratorExp = _of_comprehension


def dotted_name(node: Any) -> str | None:
    """`a.b.c` for attributes of a name, or the name itself; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def parameters(args: ast.arguments) -> list[str]:
    """The names of all parameters, in order."""
    every = [*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else ()), *args.kwonlyargs]
    return [arg.arg for arg in (*every, *([args.kwarg] if args.kwarg else ()))]


def same_scope(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes below some, without the insides of functions and classes; these themselves are among them."""
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(list(ast.iter_child_nodes(node))[::-1])


def declared(body: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """The names that a function's body declares as global, and as nonlocal."""
    found: tuple[set[str], set[str]] = (set(), set())
    for node in same_scope(body):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            found[isinstance(node, ast.Nonlocal)].update(node.names)
    return found


def outside_names(function: Any) -> Names:
    """What calling a nested function does with names of the functions around it."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    inner = Names().add(body)
    own_globals, nonlocals = declared(body)
    mine = (inner.bound | set(parameters(function.args))) - own_globals - nonlocals
    inner.reads -= mine | own_globals
    inner.bound &= nonlocals
    inner.forget(mine)
    return inner


def called_by_name(body: Sequence[ast.stmt]) -> dict[str, Names]:
    """What the nested functions and named lambdas of a function do, by name."""
    found: dict[str, Names] = {}
    for node in same_scope(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name, function = node.name, node
        elif (isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
              and isinstance(node.targets[0], ast.Name)):  # fmt: skip
            name, function = node.targets[0].id, node.value  # type: ignore[assignment]
        else:
            continue
        names = outside_names(function)
        if name in found:
            names.reads |= found[name].reads
            names.bound |= found[name].bound
        found[name] = names
    # Functions that name each other: what one does, the other does.
    for _ in found:
        before = [(len(n.reads), len(n.bound)) for n in found.values()]
        for names in found.values():
            for other in names.reads & found.keys():
                names.reads = names.reads | found[other].reads
                names.bound = names.bound | found[other].bound
        if before == [(len(n.reads), len(n.bound)) for n in found.values()]:
            break
    return found
