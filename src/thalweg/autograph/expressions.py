"""Converts expressions: calls, `and`, `or`, `not`, comparisons, conditional expressions, indexing.

Each becomes a call of an operator of `ag__`, which decides at run time whether Python or the graph does it. What Python
evaluates only if it is needed becomes a function without arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

OPERATORS: Final = "ag__"

# These look at the frame that they are called from.
_FRAME_BOUND: Final = frozenset({"locals", "globals", "vars", "dir", "eval", "exec", "super", "__import__"})
_COMPARISONS: Final = {ast.Eq: "equal", ast.NotEq: "not_equal", ast.In: "contains", ast.NotIn: "lacks"}
_KNOWN_TESTS: Final = frozenset({"isinstance", "issubclass", "callable", "hasattr"})


def operator(name: str, place: Any, *args: Any, keywords: Sequence[Any] = ()) -> Any:
    """A call of an operator, at the position of `place`."""
    function = ast.Attribute(value=ast.Name(id=OPERATORS, ctx=ast.Load()), attr=name, ctx=ast.Load())
    return positioned(ast.Call(func=function, args=list(args), keywords=list(keywords)), place)


def positioned(node: Any, place: Any) -> Any:
    """Gives a node, and those below it that have none, the position of another."""
    for each in ast.walk(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, place)
    return node


def no_arguments() -> ast.arguments:
    """The parameters of a function without parameters."""
    return arguments_named([])


def arguments_named(names: Sequence[str]) -> ast.arguments:
    """Positional parameters of these names."""
    args = [ast.arg(arg=name) for name in names]
    return ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])


def decided_by_python(test: Any) -> bool:
    """Whether a condition is never a tensor: `is`, `isinstance` and the like, and what is made of them."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return decided_by_python(test.operand)
    if isinstance(test, ast.BoolOp):
        return all(decided_by_python(value) for value in test.values)
    if isinstance(test, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in _KNOWN_TESTS
    return isinstance(test, ast.Constant)


class Expressions(ast.NodeTransformer):
    """Converts the expressions of one function."""

    def __init__(self, first_parameter: str | None, in_class: bool) -> None:
        """Takes what `super()` needs: the first parameter, and whether the function is in a class."""
        self._first_parameter = first_parameter if in_class else None
        self._deferred = 0  # How many functions that were made here are around the expression.
        self._number = 0

    def _later(self, node: Any) -> Any:
        """An expression as a function without arguments."""
        self._deferred += 1
        body = self.visit(node)
        self._deferred -= 1
        return positioned(ast.Lambda(args=no_arguments(), body=body), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and` and `or`."""
        if decided_by_python(node):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *rest = node.values
        return operator(name, node, self.visit(first), *(self._later(value) for value in rest))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`."""
        if not isinstance(node.op, ast.Not) or decided_by_python(node):
            return self.generic_visit(node)
        return operator("not_", node, self.visit(node.operand))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """`a if c else b`."""
        if decided_by_python(node.test):
            return self.generic_visit(node)
        return operator("if_expression", node, self.visit(node.test), self._later(node.body), self._later(node.orelse))

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Comparisons, also chained."""
        return self._compared(node, self.visit(node.left), node.ops, node.comparators)

    def _compared(self, place: Any, left: Any, ops: Sequence[Any], comparators: Sequence[Any]) -> Any:
        if len(ops) == 1:
            right = self.visit(comparators[0])
            name = _COMPARISONS.get(type(ops[0]))
            if name is not None:
                return operator(name, place, left, right)
            return positioned(ast.Compare(left=left, ops=[ops[0]], comparators=[right]), place)
        # a < b < c: b is evaluated once, and c only if a < b.
        self._number += 1
        names = [f"ag__left_{self._number}", f"ag__middle_{self._number}"]
        first, middle = (ast.Name(id=name, ctx=ast.Load()) for name in names)
        name = _COMPARISONS.get(type(ops[0]))
        test: Any = ast.Compare(left=first, ops=[ops[0]], comparators=[middle])
        if name is not None:
            test = operator(name, place, first, middle)
        second = self.visit(comparators[0])
        self._deferred += 1
        rest = self._compared(place, ast.Name(id=names[1], ctx=ast.Load()), ops[1:], comparators[1:])
        self._deferred -= 1
        both = operator("and_", place, test, ast.Lambda(args=no_arguments(), body=rest))
        function = ast.Lambda(args=arguments_named(names), body=both)
        return positioned(ast.Call(func=function, args=[left, second], keywords=[]), place)

    def visit_Call(self, node: ast.Call) -> Any:
        """Calls."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in _FRAME_BOUND:
            node = self.generic_visit(node)  # type: ignore[assignment]
            if function.id == "super" and not node.args and self._first_parameter is not None:
                # Nested functions have no `__class__` and no first argument of their own.
                node.args = [
                    positioned(ast.Name(id="__class__", ctx=ast.Load()), node),
                    positioned(ast.Name(id=self._first_parameter, ctx=ast.Load()), node),
                ]
            return node
        called = self.visit(function)
        args = [self.visit(each) for each in node.args]
        keywords = [self.visit(each) for each in node.keywords]
        return positioned(ast.Call(func=operator("callee", function, called), args=args, keywords=keywords), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Indexing."""
        if not isinstance(node.ctx, ast.Load) or isinstance(getattr(node.slice, "value", None), str):
            return self.generic_visit(node)
        return operator("get_item", node, self.visit(node.value), self.key(node.slice))

    def key(self, node: Any) -> Any:
        """The key of an indexing expression, as an expression of its own."""
        if isinstance(node, ast.Slice):
            parts = [self.visit(p) if p is not None else ast.Constant(value=None) for p in (node.lower, node.upper)]
            parts.append(self.visit(node.step) if node.step is not None else ast.Constant(value=None))
            return operator("slice", node, *parts)
        if isinstance(node, ast.Tuple) and any(isinstance(each, ast.Slice) for each in node.elts):
            return positioned(ast.Tuple(elts=[self.key(each) for each in node.elts], ctx=ast.Load()), node)
        return self.visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        """`name := value`."""
        value = self.visit(node.value)
        if not self._deferred:
            node.value = value
            return node
        # The name belongs to the function around, not to the one that this expression has become.
        read = ast.Lambda(args=no_arguments(), body=ast.Name(id=node.target.id, ctx=ast.Load()))
        return operator("bind", node, read, value)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """The body of a lambda."""
        node.args = self._visit_defaults(node.args)
        inner = Expressions(None, False)
        inner._first_parameter = self._first_parameter
        node.body = inner.visit(node.body)
        return node

    def _visit_defaults(self, args: ast.arguments) -> ast.arguments:
        args.defaults = [self.visit(each) for each in args.defaults]
        args.kw_defaults = [each if each is None else self.visit(each) for each in args.kw_defaults]
        return args

    def _comprehension(self, node: Any) -> Any:
        node = self.generic_visit(node)
        for generator in node.generators:
            generator.iter = operator("elements", generator.iter, generator.iter)
            generator.ifs = [operator("known_bool", test, test) for test in generator.ifs]
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Await(self, node: ast.Await) -> Any:
        """Left alone."""
        return node
