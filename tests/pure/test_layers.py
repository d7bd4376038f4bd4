"""The order of the packages: a lower one never imports a higher one, not even inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thalweg"

# Lowest first. Those on one line do not import each other. docs/decisions/0021-layers.md has the reasons.
ORDER = (
    "errors",
    "platform",  # files, flags, logging, the processor
    "_native",  # loads the core
    "graph",
    "ops devices",
    "control_flow",
    "state",
    "image autodiff autograph",
    "functions",
    "passes",
    "placement",
    "planning",
    "runtime",
    "eager",  # runs ops at once
    "nn summary profiler",
    "layers metrics",
    "rnn",
    "seq2seq train",
    "data feature_column testing datasets dist trackable",
    "saved_model",  # with the objects of checkpoints
    "horovod",  # Horovod's names, on collective ops and this process's task
    "compatibility lazy_spaces",
    "as_tensorflow notebook_views",
    "namespace cli",
    "__init__",
    "__main__ distributions estimator keras linalg ragged signal",  # These use the public names, as programs do.
    "contrib",
    "version_two",  # TensorFlow 2's names
    "tensorflow_modules",  # what TensorFlow's internal paths hold beside public names
)

# The same for the files and folders inside of some packages.
ORDER_WITHIN = {
    "graph": (
        "dtypes nest source_location marks op_effects immediate",
        "tensor_shape",
        "constant_values static_value handle_data variable_values",
        "definitions",  # op definitions: signature, attributes, shape function, gradient
        "messages op_registry shape_functions collections device_spec default_stack gradient_source convert_inputs",
        "tensor scopes",
        "eager_tensor",
        "operation tensor_spec conversion control_flow_context resolve",
        "graph_lookup",
        "graph",
        "eager_graph",
        "default_graph",
        "composite func_graph apply eager_operation",
        "formats",  # whole graphs in and out
    ),
    "train": (
        "global_step cluster_spec coordinator optimizers",
        "checkpoints input device_setter cluster_resolver",
        "hooks",
        "sessions",
        "replicas",
    ),
}


class Import(NamedTuple):
    """One import: `module` imports `target`, in a line of its file. Both are dotted, without the package's name."""

    module: str
    line: int
    target: str
    kind: str  # "module", "function" or "types"
    explained: bool  # The line, or the comment above it, says "Start-up time".

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}, imports {self.target}"


def _module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _targets(node: ast.AST, module: str, is_package: bool, package: str) -> Iterator[str]:
    """The dotted names, relative to the package, that a statement or a call imports."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = f"{package}.{module}".split(".")
            above = above[: len(above) - node.level + is_package]
            base = ".".join([*above, base] if base else above)
        names = [f"{base}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            names = [node.args[0].value]
    for name in names:
        if name == package:
            yield "__init__"
        elif name.startswith(f"{package}."):
            yield name[len(package) + 1 :]


def _explained(lines: Sequence[str], node: ast.stmt | ast.expr) -> bool:
    """Whether the statement, or the comment above the block of imports that it is in, says "Start-up time"."""
    if any("# Start-up time:" in line for line in lines[node.lineno - 1 : node.end_lineno]):
        return True
    above = node.lineno - 2
    while above >= 0 and lines[above].strip().startswith(("from ", "import ", "#")):
        if lines[above].strip().startswith("# Start-up time:"):
            return True
        above -= 1
    return False


def read_imports(root: Path) -> list[Import]:
    """All imports of a package's own modules, in every file under its folder."""
    modules = {_module_of(path, root): path for path in sorted(root.rglob("*.py"))}
    found: list[Import] = []
    for module, path in modules.items():
        text = path.read_text()
        for node, kind in _statements(ast.parse(text), "module"):
            for name in _targets(node, module, path.name == "__init__.py", root.name):
                # `from package.module import name`: the module, unless the name is one.
                target = name if name in modules else name.rpartition(".")[0]
                if target in modules:
                    found.append(Import(module, node.lineno, target, kind, _explained(text.splitlines(), node)))
    return found


def _statements(parent: ast.AST, kind: str) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """All statements and expressions below `parent`, each with the kind that an import there would have."""
    for node in ast.iter_child_nodes(parent):
        inner = kind
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inner = "types"
        elif kind == "module" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = "function"
        if isinstance(node, (ast.stmt, ast.expr)):
            yield node, kind
        yield from _statements(node, inner)


def against_order(imports: Iterable[Import], order: Sequence[str], within: str = "") -> list[str]:
    """The imports among the parts of the package `within` that do not point to a lower part.

    Between packages, those under TYPE_CHECKING count, too. Inside of one, annotations may name higher parts.
    """
    ranks = {name: rank for rank, line in enumerate(order) for name in line.split()}
    prefix = f"{within}." if within else ""
    wrong = []
    for each in imports:
        if not (each.module.startswith(prefix) and each.target.startswith(prefix)):
            continue
        user = each.module[len(prefix) :].split(".")[0]
        used = each.target[len(prefix) :].split(".")[0]
        if each.kind == "types" and within:
            continue
        missing = {user, used} - ranks.keys()
        if missing:
            wrong.append(f"{each}: {', '.join(sorted(missing))} has no place in the order")
        elif user != used and ranks[used] >= ranks[user]:
            wrong.append(f"{each}: {prefix}{used} is not below {prefix}{user}")
    return wrong


def circle(imports: Iterable[Import]) -> list[str]:
    """The modules that import each other in a circle, or lie between two circles; none in a healthy tree."""
    uses: dict[str, set[str]] = {}
    for each in imports:
        if each.kind != "types" and each.module != each.target:
            uses.setdefault(each.module, set()).add(each.target)
            uses.setdefault(each.target, set())
    while True:
        used = set().union(*uses.values()) if uses else set()
        # A module without remaining imports, or without remaining importers, is in no circle.
        free = {module for module, targets in uses.items() if not targets or module not in used}
        if not free:
            return sorted(uses)
        uses = {module: targets - free for module, targets in uses.items() if module not in free}


def unexplained(imports: Iterable[Import]) -> list[str]:
    """The imports inside of functions that do not say that they are there for start-up time."""
    return [str(each) for each in imports if each.kind == "function" and not each.explained]


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return read_imports(SOURCE)


def test_no_package_imports_one_that_is_not_below_it(imports: list[Import]) -> None:
    assert against_order(imports, ORDER) == []


@pytest.mark.parametrize("package", ORDER_WITHIN)
def test_the_order_holds_inside_of(package: str, imports: list[Import]) -> None:
    assert against_order(imports, ORDER_WITHIN[package], package) == []


def test_no_modules_import_each_other_in_a_circle(imports: list[Import]) -> None:
    assert circle(imports) == []


def test_imports_inside_of_functions_are_there_for_start_up_time_and_say_so(imports: list[Import]) -> None:
    assert unexplained(imports) == []


TREE = {
    "__init__.py": "",
    "low/__init__.py": "",
    "low/base.py": "import os\n",
    "low/lazy.py": """
def late():
    # Start-up time: rarely needed.
    import made_up.low.base
    from made_up.low import base
""",
    "high/__init__.py": "",
    "high/user.py": "from made_up.low import base, lazy\nfrom .other import value\n",
    "high/other.py": "value = 1\n",
}


def made_up(folder: Path, files: dict[str, str]) -> list[Import]:
    root = folder / "made_up"
    for name, text in {**TREE, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_imports(root)


def test_a_made_up_tree_in_order_passes(tmp_path: Path) -> None:
    found = made_up(tmp_path, {})
    assert against_order(found, ("low", "high")) == circle(found) == unexplained(found) == []
    user = [each.target for each in found if each.module == "high.user"]
    assert user == ["low.base", "low.lazy", "high.other"]


@pytest.mark.parametrize(
    "statement",
    [
        "import made_up.high.other",
        "import importlib; importlib.import_module('made_up').high",
        "from made_up.high import other",
        "from made_up.high.other import value",
        "from ..high.other import value",
        "import importlib; importlib.import_module('made_up.high.other')",
        "def f():\n    from made_up.high.other import value  # Start-up time: no excuse.",
        "def f():\n    importlib.import_module('made_up.high.other')",
        "class C:\n    from made_up.high import other",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made_up.high import other",
    ],
)
def test_an_import_against_the_order_is_found(tmp_path: Path, statement: str) -> None:
    found = made_up(tmp_path, {"low/base.py": statement})
    assert len(against_order(found, ("low", "high"))) == 1
    assert len(against_order(found, ("low high",))) == 3


def test_annotations_inside_of_a_package_may_name_what_is_higher(tmp_path: Path) -> None:
    found = made_up(tmp_path, {"high/other.py": "if TYPE_CHECKING:\n    from made_up.high import user"})
    assert against_order(found, ("other", "user"), "high") == circle(found) == unexplained(found) == []


def test_a_package_without_a_place_is_found(tmp_path: Path) -> None:
    found = made_up(tmp_path, {"new/thing.py": "import made_up.low.base"})
    assert "new has no place" in against_order(found, ("low", "high"))[0]


@pytest.mark.parametrize("late", ["from made_up.low import lazy", "def f():\n    import made_up.low.lazy"])
def test_a_circle_is_found_also_through_functions(tmp_path: Path, late: str) -> None:
    assert circle(made_up(tmp_path, {"low/base.py": late})) == ["low.base", "low.lazy"]


def test_the_order_inside_of_a_package_is_checked(tmp_path: Path) -> None:
    found = made_up(tmp_path, {})
    assert against_order(found, ("other", "user"), "high") == []
    assert len(against_order(found, ("user", "other"), "high")) == 1


def test_an_import_inside_of_a_function_needs_its_comment(tmp_path: Path) -> None:
    plain = "def f():\n    x = 1  # Start-up time: of something else\n    from made_up.low import lazy\n"
    assert len(unexplained(made_up(tmp_path, {"high/other.py": plain}))) == 1
    said = "def f():\n    from made_up.low import (  # Start-up time: rarely needed.\n        lazy,\n    )\n"
    assert unexplained(made_up(tmp_path, {"high/other.py": said})) == []
