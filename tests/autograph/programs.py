"""Random programs of `if`, `while`, `for`, `break`, `continue` and `return` over a few numbers, each from a seed."""

from __future__ import annotations

import random

INTS = ("a", "b", "c")
FLOATS = ("x", "y")


class Writer:
    """Writes one program: the function `f(a, b, x, span)`, where `span` is Python's range or one of tensors."""

    def __init__(self, seed: int) -> None:
        """The same seed gives the same program."""
        self._random = random.Random(seed)
        self._lines: list[str] = []
        self._loops = 0
        self._budget = 14

    def program(self) -> str:
        """The text."""
        self._lines = ["def f(a, b, x, span):", "    c = 1", "    y = 0.5"]
        self._block(1, in_loop=False, count=self._random.randint(3, 5))
        self._lines.append(f"    return {self._results()}")
        return "\n".join(self._lines) + "\n"

    def _results(self) -> str:
        return f"a, b, c, x, y, {self._random.randint(0, 9)}"

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _block(self, depth: int, in_loop: bool, count: int) -> None:
        for _ in range(count):
            self._budget -= 1
            kinds = ["set", "set"]
            if self._budget > 0 and depth < 5:
                kinds += ["if", "if", "while", "for"]
            if in_loop:
                kinds += ["break", "continue"]
            kinds += ["return"] * (depth > 1)
            kind = self._random.choice(kinds)
            getattr(self, f"_{kind}")(depth, in_loop)
            if kind in ("break", "continue", "return"):
                return

    def _set(self, depth: int, in_loop: bool) -> None:
        pick = self._random.choice
        if self._random.random() < 0.6:
            name = pick(INTS)
            self._line(depth, pick([
                f"{name} = ({pick(INTS)} + {pick(INTS)} * {self._random.randint(1, 4)}) % 17",
                f"{name} = {self._random.randint(-3, 9)}",
                f"{name} = {pick(INTS)} - {pick(INTS)}",
                f"{name} = {pick(INTS)} if {self._test()} else {pick(INTS)}",
                f"{name}, b = b, {name}",
            ]))  # fmt: skip
        else:
            name = pick(FLOATS)
            self._line(depth, pick([
                f"{name} = {pick(FLOATS)} * 0.5 + {self._random.randint(0, 3)}.25",
                f"{name} = {self._random.randint(-2, 4)}.5",
                f"{name} = -{pick(FLOATS)}",
            ]))  # fmt: skip

    def _test(self) -> str:
        pick = self._random.choice
        simple = pick([
            f"{pick(INTS)} > {self._random.randint(-2, 8)}",
            f"{pick(INTS)} % 3 == {self._random.randint(0, 2)}",
            f"{pick(FLOATS)} < {self._random.randint(-1, 3)}.0",
            f"-1 < {pick(INTS)} <= {self._random.randint(1, 9)}",
            f"{pick(INTS)} != {pick(INTS)}",
        ])  # fmt: skip
        if self._random.random() < 0.25:
            return (
                f"{pick(['not ', ''])}({simple} {pick(['and', 'or'])} {pick(FLOATS)} > {self._random.randint(-1, 1)}.0)"
            )
        return simple

    def _if(self, depth: int, in_loop: bool) -> None:
        self._line(depth, f"if {self._test()}:")
        self._block(depth + 1, in_loop, self._random.randint(1, 3))
        if self._random.random() < 0.3:
            self._line(depth, f"elif {self._test()}:")
            self._block(depth + 1, in_loop, self._random.randint(1, 2))
        if self._random.random() < 0.6:
            self._line(depth, "else:")
            self._block(depth + 1, in_loop, self._random.randint(1, 2))

    def _while(self, depth: int, in_loop: bool) -> None:
        self._loops += 1
        name = f"n{self._loops}"
        self._line(depth, f"{name} = 0")
        self._line(depth, f"while {name} < {self._random.randint(1, 4)} and {self._test()}:")
        self._line(depth + 1, f"{name} = {name} + 1")
        self._block(depth + 1, True, self._random.randint(1, 3))
        self._else(depth, in_loop)

    def _for(self, depth: int, in_loop: bool) -> None:
        self._loops += 1
        name = f"i{self._loops}"
        limit = self._random.choice(["a % 5", "3", "b % 4", "4"])
        over = f"span({limit})" if self._random.random() < 0.75 else f"range({self._random.randint(0, 3)})"
        self._line(depth, f"for {name} in {over}:")
        if self._random.random() < 0.5:
            self._line(depth + 1, f"c = c + {name}")
        self._block(depth + 1, True, self._random.randint(1, 3))
        self._else(depth, in_loop)

    def _else(self, depth: int, in_loop: bool) -> None:
        if self._random.random() < 0.2:
            self._line(depth, "else:")
            self._block(depth + 1, in_loop, 1)

    def _break(self, depth: int, in_loop: bool) -> None:
        self._line(depth, "break")

    def _continue(self, depth: int, in_loop: bool) -> None:
        self._line(depth, "continue")

    def _return(self, depth: int, in_loop: bool) -> None:
        self._line(depth, f"return {self._results()}")
