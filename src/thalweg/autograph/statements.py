"""Converts the statements of a function: control flow becomes functions and calls of operators.

    if x > 0:                       def ag__then_1():
        y = 1                           nonlocal y
                     becomes            y = 1
                                    ag__.if_(x > 0, ag__then_1, None, ("y",), ())

The operators find the variables in the closures of these functions. Every node keeps the position of the statement that
it comes from, so that a traceback through converted code shows the lines of the user.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from thalweg.autograph.expressions import (
    OPERATORS,
    Expressions,
    arguments_named,
    decided_by_python,
    no_arguments,
    operator,
    positioned,
)
from thalweg.autograph.jumps import Jumps, Unsupported
from thalweg.autograph.liveness import Liveness
from thalweg.autograph.names import Names, called_by_name, declared, parameters, same_scope
from thalweg.autograph.source import copy_tree


class _Numbers:
    """Names for what conversion adds to one function, and to those inside of it."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, stem: str) -> str:
        self._count += 1
        return f"ag__{stem}_{self._count}"


def convert_lambda(node: ast.Lambda, in_class: bool) -> None:
    """Converts the body of a lambda, in place."""
    names = parameters(node.args)
    node.body = Expressions(names[0] if names else None, in_class).visit(node.body)


def convert_function(node: Any, in_class: bool, unique: Any = None) -> None:
    """Converts the body of a function, in place.

    Raises:
        Unsupported: If it is a generator or a coroutine, or has a statement that cannot be converted.
    """
    kind = refused(node)
    if kind is not None:
        raise Unsupported(f"{kind} cannot become part of a graph", node.lineno)
    _Statements(node, in_class, unique or _Numbers()).convert()


def refused(node: Any) -> str | None:
    """What a function is that is never converted: a generator or a coroutine; None for others."""
    if isinstance(node, ast.AsyncFunctionDef):
        return f"the coroutine '{node.name}'"
    if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in same_scope(node.body)):
        return f"the generator '{node.name}'"
    return None


class _Statements:
    def __init__(self, function: Any, in_class: bool, unique: Any) -> None:
        self._function = function
        self._in_class = in_class
        self._unique = unique
        names = parameters(function.args)
        self._parameters = set(names)
        self._expressions = Expressions(names[0] if names else None, in_class)
        self._globals, self._nonlocals = declared(function.body)
        self._rebound: set[str] = set()  # Names that functions made here declare nonlocal.

    def convert(self) -> None:
        function = self._function
        before = Names().add(function.body).bound
        docstring = []
        body = function.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            docstring, body = body[:1], body[1:]
        place = function.body[0]
        body = _without_declarations(body) or [positioned(ast.Pass(), place)]
        body = Jumps(self._unique).lower(body)
        self._calls = called_by_name(body)
        escaping = self._globals | self._nonlocals
        Liveness(self._calls, escaping).block(body, set(escaping))
        written = before | Names().add(body).bound
        self._locals = written - self._parameters - escaping
        converted = self._block(body)
        after = Names().add(converted).bound
        header: list[Any] = []
        if self._globals:
            header.append(ast.Global(names=sorted(self._globals)))
        if self._nonlocals:
            header.append(ast.Nonlocal(names=sorted(self._nonlocals)))
        # An annotation makes a name local without giving it a value.
        for name in sorted(self._locals & (self._rebound | (before - after))):
            target = ast.Name(id=name, ctx=ast.Store())
            header.append(ast.AnnAssign(target=target, annotation=ast.Constant(value=None), value=None, simple=1))
        function.body = [*docstring, *(positioned(each, place) for each in header), *converted]

    # Blocks and simple statements.

    def _block(self, body: Sequence[Any]) -> list[Any]:
        out: list[Any] = []
        for statement in body:
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is not None:
                out += method(statement)
            else:
                out.append(self._expressions.visit(statement))
        return out

    def _visit(self, node: Any) -> Any:
        return None if node is None else self._expressions.visit(node)

    def _FunctionDef(self, node: Any) -> list[Any]:
        return [self._nested(node)]

    def _nested(self, node: Any) -> Any:
        node.decorator_list = [self._visit(each) for each in node.decorator_list]
        self._expressions._visit_defaults(node.args)
        if refused(node) is None:
            inside = self._expressions._first_parameter
            convert_function(node, self._in_class and inside is not None, self._unique)
        return node

    def _AsyncFunctionDef(self, node: Any) -> list[Any]:
        return [node]

    def _ClassDef(self, node: ast.ClassDef) -> list[Any]:
        return [node]  # Its methods are converted when they are called.

    def _AnnAssign(self, node: ast.AnnAssign) -> list[Any]:
        if node.value is None:
            return []
        return self._Assign(positioned(ast.Assign(targets=[node.target], value=node.value), node))

    def _Assign(self, node: ast.Assign) -> list[Any]:
        node.value = self._visit(node.value)
        if not any(isinstance(each, ast.Subscript) for target in node.targets for each in _target_parts(target)):
            node.targets = [self._visit(target) for target in node.targets]
            return [node]
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return [self._set_item(node.targets[0], node.value)]
        value = self._unique("value")
        out: list[Any] = [positioned(_assigned(value, node.value), node)]
        for target in node.targets:
            items: list[Any] = []
            simple = self._without_items(target, items)
            assigned = ast.Assign(targets=[simple], value=ast.Name(id=value, ctx=ast.Load()))
            out += [positioned(assigned, node), *items]
        return out

    def _without_items(self, target: Any, items: list[Any]) -> Any:
        """A target in which names stand for items, and the statements that assign them."""
        if isinstance(target, ast.Subscript):
            name = self._unique("item")
            items.append(self._set_item(target, positioned(ast.Name(id=name, ctx=ast.Load()), target)))
            return positioned(ast.Name(id=name, ctx=ast.Store()), target)
        if isinstance(target, (ast.Tuple, ast.List)):
            target.elts = [self._without_items(each, items) for each in target.elts]
            return target
        if isinstance(target, ast.Starred):
            target.value = self._without_items(target.value, items)
            return target
        return self._visit(target)

    def _set_item(self, target: ast.Subscript, value: Any, key: Any = None) -> Any:
        base = target.value
        key = self._expressions.key(target.slice) if key is None else key
        if isinstance(base, ast.Name) and base.id in self._locals | self._parameters | self._globals | self._nonlocals:
            read = positioned(ast.Name(id=base.id, ctx=ast.Load()), target)
            return positioned(_assigned(base.id, operator("set_item", target, value, read, key)), target)
        if isinstance(base, ast.Attribute):
            owner = self._visit(base.value)
            name = ast.Constant(value=base.attr)
            call = operator("set_attribute_item", target, value, owner, name, key)
        else:
            call = operator("change_item", target, value, self._visit(base), key)
        return positioned(ast.Expr(value=call), target)

    def _AugAssign(self, node: ast.AugAssign) -> list[Any]:
        if not isinstance(node.target, ast.Subscript):
            return [self._expressions.visit(node)]
        target = node.target
        key, value = self._unique("key"), self._unique("value")
        key_read = ast.Name(id=key, ctx=ast.Load())
        base = target.value
        out = []
        if not isinstance(base, ast.Name):  # What the item belongs to is evaluated once.
            owner = self._unique("owner")
            inner = base.value if isinstance(base, ast.Attribute) else base
            out = [positioned(_assigned(owner, self._visit(inner)), node)]
            kept: Any = ast.Name(id=owner, ctx=ast.Load())
            if isinstance(base, ast.Attribute):
                kept = ast.Attribute(value=kept, attr=base.attr, ctx=ast.Load())
            target.value = positioned(kept, node)
        read_base = copy_tree(target.value)
        out.append(positioned(_assigned(key, self._expressions.key(target.slice)), node))
        out.append(positioned(_assigned(value, operator("get_item", node, read_base, key_read)), node))
        change = ast.AugAssign(target=ast.Name(id=value, ctx=ast.Store()), op=node.op, value=self._visit(node.value))
        out.append(positioned(change, node))
        out.append(self._set_item(target, positioned(ast.Name(id=value, ctx=ast.Load()), node), key_read))
        return [positioned(each, node) for each in out]

    def _Assert(self, node: ast.Assert) -> list[Any]:
        if decided_by_python(node.test):
            return [self._expressions.generic_visit(node)]
        message: Any = ast.Constant(value=None)
        if node.msg is not None:
            message = self._expressions._later(node.msg)
        text = ast.Constant(value=ast.unparse(node.test))
        call = operator("assert_", node, self._visit(node.test), message, text)
        return [positioned(ast.Expr(value=call), node)]

    # Compound statements.

    def _inside(self, node: Any) -> list[Any]:
        """A statement that stays as it is, with converted blocks."""
        for key in ("test", "subject"):
            if hasattr(node, key):
                setattr(node, key, self._visit(getattr(node, key)))
        for key in ("body", "orelse", "finalbody"):
            if getattr(node, key, None):
                setattr(node, key, self._block(getattr(node, key)) or [positioned(ast.Pass(), node)])
        return [node]

    def _With(self, node: ast.With) -> list[Any]:
        node.items = [self._visit(item) for item in node.items]
        return self._inside(node)

    def _Try(self, node: ast.Try) -> list[Any]:
        for handler in node.handlers:
            handler.type = self._visit(handler.type)
            handler.body = self._block(handler.body) or [positioned(ast.Pass(), node)]
        return self._inside(node)

    _TryStar = _Try

    def _Match(self, node: ast.Match) -> list[Any]:
        for case in node.cases:
            if case.guard is not None:
                case.guard = operator("known_bool", case.guard, self._visit(case.guard))
            case.body = self._block(case.body) or [positioned(ast.Pass(), case.body[0])]
        node.subject = operator("matched", node.subject, self._visit(node.subject))
        return [node]

    def _If(self, node: Any) -> list[Any]:
        if decided_by_python(node.test):
            return self._inside(node)
        names = Names(self._calls).add([node.body, node.orelse])
        live, rest = self._state(names, node.live_after)
        then = self._helper("then", node, node.body)
        out = [then]
        otherwise: Any = ast.Constant(value=None)
        if node.orelse:
            out.append(self._helper("else", node.orelse[0], node.orelse))
            otherwise = ast.Name(id=out[-1].name, ctx=ast.Load())
        test = self._visit(node.test)
        first = ast.Name(id=then.name, ctx=ast.Load())
        call = operator("if_", node.test, test, first, otherwise, _strings(live), _strings(rest))
        return [*out, positioned(ast.Expr(value=call), node.test)]

    def _While(self, node: Any) -> list[Any]:
        options = self._loop_options(node)
        names = Names(self._calls).add([node.test, node.body])
        live, rest = self._state(names, node.live_head | node.live_after)
        changes_state = bool(Names(self._calls).add(node.test).writes)
        test = self._helper("test", node.test, [positioned(ast.Return(value=node.test), node.test)])
        body = self._helper("body", node, node.body)
        args: list[Any] = [ast.Name(id=test.name, ctx=ast.Load()), ast.Name(id=body.name, ctx=ast.Load())]
        args += [_strings(live), _strings(rest), _strings(names.grown), options, ast.Constant(value=changes_state)]
        call = operator("while_", node.test, *args)
        return [test, body, positioned(ast.Expr(value=call), node.test)]

    def _For(self, node: Any) -> list[Any]:
        options = self._loop_options(node)
        extra = getattr(node, "extra_test", None)
        names = Names(self._calls).add([node.target, node.body])
        live, rest = self._state(names, node.live_head | node.live_after)
        out = []
        test: Any = ast.Constant(value=None)
        if extra is not None:
            out.append(self._helper("test", node, [positioned(ast.Return(value=extra), node)]))
            test = ast.Name(id=out[0].name, ctx=ast.Load())
        item = ast.Assign(targets=[node.target], value=ast.Name(id="ag__item", ctx=ast.Load()))
        item_node = positioned(item, node.target)
        body = self._helper("body", node, [item_node, *node.body], ["ag__item"])
        out.append(body)
        args = [self._visit(node.iter), test, ast.Name(id=body.name, ctx=ast.Load())]
        args += [_strings(live), _strings(rest), _strings(names.grown), options]
        return [*out, positioned(ast.Expr(value=operator("for_", node.iter, *args)), node.iter)]

    def _state(self, names: Names, live: set[str]) -> tuple[set[str], set[str]]:
        """The variables whose values go on, and those that only the block itself uses."""
        writes = names.writes & (self._locals | self._parameters | self._globals | self._nonlocals)
        kept = writes & (live | (names.items - names.bound))  # Other names may stand for the same container.
        # The attributes of an object that the block itself replaces are those of another object.
        dotted = {n for n in names.attributes | names.changed if n.partition(".")[0] not in writes}
        kept |= {name for name in dotted if "." in name} | {n for n in dotted - writes if "." not in n}
        return kept, writes - kept

    def _helper(self, stem: str, place: Any, body: Sequence[Any], args: Sequence[str] = ()) -> Any:
        """A function of a block, which shares the variables of the function around it."""
        writes = Names(self._calls).add(list(body)).writes
        mine = writes & (self._locals | self._parameters | self._nonlocals)
        theirs = writes & self._globals
        self._rebound |= mine
        converted = self._block(body) or [ast.Pass()]
        declarations: list[Any] = []
        if mine:
            declarations.append(ast.Nonlocal(names=sorted(mine)))
        if theirs:
            declarations.append(ast.Global(names=sorted(theirs)))
        function = ast.FunctionDef(
            name=self._unique(stem), args=arguments_named(args) if args else no_arguments(),
            body=[*declarations, *converted], decorator_list=[], returns=None, type_comment=None,
        )  # fmt: skip
        return positioned(function, place)

    def _loop_options(self, node: Any) -> Any:
        """The arguments of `set_loop_options`, if it is the first statement of a loop; it is taken out."""
        first = node.body[0]
        call = first.value if isinstance(first, ast.Expr) else None
        function = getattr(call, "func", None)
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        if not isinstance(call, ast.Call) or name != "set_loop_options":
            return positioned(ast.Constant(value=None), node)
        node.body = node.body[1:] or [positioned(ast.Pass(), node)]
        made = operator("loop_options", call, *call.args, keywords=call.keywords)
        return positioned(ast.Lambda(args=no_arguments(), body=made), call)


def _without_declarations(body: Sequence[Any]) -> list[Any]:
    """A body without `global` and `nonlocal`: they are said once, at its beginning."""

    class Remover(ast.NodeTransformer):
        def visit_Global(self, node: Any) -> Any:
            return positioned(ast.Pass(), node)

        visit_Nonlocal = visit_Global

        def generic_visit(self, node: Any) -> Any:
            if isinstance(node, (ast.expr, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return node
            return super().generic_visit(node)

    return [Remover().visit(statement) for statement in body]


def _target_parts(target: Any) -> list[Any]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for each in target.elts for part in _target_parts(each)]
    return _target_parts(target.value) if isinstance(target, ast.Starred) else [target]


def _assigned(name: str, value: Any) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)


def _strings(values: set[str]) -> Any:
    return ast.Tuple(elts=[ast.Constant(value=value) for value in sorted(values)], ctx=ast.Load())


__all__ = ["OPERATORS", "convert_function", "convert_lambda", "refused"]
