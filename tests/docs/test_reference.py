"""The pages of the reference are complete, and their links lead somewhere. Needs no site generator."""

from __future__ import annotations

import inspect
import posixpath
import re
from typing import Any

import pytest

import thalweg as tf
from reference import docstrings, kernels, links, names, op_facts, pages, signatures
from thalweg import lazy_spaces
from thalweg.graph.definitions import op_registry


@pytest.fixture(scope="module")
def reference() -> names.Reference:
    return names.collect()


@pytest.fixture(scope="module")
def texts(reference: names.Reference) -> dict[str, str]:
    return pages.all_pages(reference)


def test_every_exported_and_lazy_name_is_described(reference: names.Reference) -> None:
    public = {f"tf.{name}" for name in [*op_registry.exports(), *lazy_spaces.single_names()]}
    assert public <= set(reference.entries) | set(reference.modules)


def test_every_name_is_reachable_as_an_attribute(reference: names.Reference) -> None:
    for name in reference.entries:
        value: Any = tf
        for part in name.split(".")[1:]:
            value = getattr(value, part)


def test_every_entry_is_listed_in_its_namespace(reference: names.Reference, texts: dict[str, str]) -> None:
    for name, entry in reference.entries.items():
        assert f"`{name}`" in texts[name.rpartition(".")[0]]
        assert entry.page in texts


def test_pages_differ_in_more_than_case(texts: dict[str, str]) -> None:
    assert len({page.casefold() for page in texts}) == len(texts)


def test_every_op_type_is_described(texts: dict[str, str]) -> None:
    for definition in op_registry.all_ops():
        assert f"tf.raw_ops.{definition.name}(" in texts[links.op_page(definition)]
        assert f'#tf.raw_ops.{definition.name}"' in texts["ops/index"]


def test_links_between_pages_lead_to_pages(texts: dict[str, str]) -> None:
    for page, text in texts.items():
        for target in re.findall(r"\]\(([^)\s]+)\.md\)", text):
            assert posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) in texts, (page, target)


def test_links_to_op_types_lead_to_them(texts: dict[str, str]) -> None:
    for page, text in texts.items():
        for target, op in re.findall(r'href="([^"]+)\.html#tf\.raw_ops\.(\w+)"', text):
            family = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            assert f"tf.raw_ops.{op}(" in texts[family], (page, op)


def test_links_to_sources_lead_to_lines_of_files(texts: dict[str, str]) -> None:
    lengths: dict[str, int] = {}
    for page, text in texts.items():
        for file, line in re.findall(r'sources/([^"]+)\.html#L(\d+)"', text):
            if file not in lengths:
                lengths[file] = len((kernels.REPOSITORY / file).read_text().splitlines())
            assert 1 <= int(line) <= lengths[file], (page, file, line)


def test_every_native_kernel_has_a_file() -> None:
    assert [op for op, places in kernels.places().items() if not places] == []


@pytest.mark.parametrize(
    ("op", "file"),
    [
        ("AddV2", "arithmetic.cc"),
        ("Tanh", "transcendental.cc"),  # registered by a macro
        ("ResourceApplyAdam", "training_adam.cc"),  # by its last part
        ("ResourceScatterMul", "resource_scatter.cc"),  # by its first part
        ("MapSize", "staging.cc"),
    ],
)
def test_kernels_are_found_where_they_are_registered(op: str, file: str) -> None:
    assert [posixpath.basename(path) for path, _ in kernels.places()[op]] == [file]


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("tanh", ["Tanh"]),
        ("add", ["Add", "AddV2"]),  # in a private function
        ("matmul", ["MatMul", "BatchMatMulV2"]),
        ("nn.conv2d", ["Conv2D"]),
        ("train.exponential_decay", ["Floor", "Mul", "Pow"]),
    ],
)
def test_functions_are_described_by_the_op_types_that_they_name(name: str, ops: list[str]) -> None:
    assert set(op_facts.ops_of(op_registry.exports()[name])) == set(ops)


def test_the_facts_of_an_op_type(reference: names.Reference) -> None:
    table = pages.op_table(op_registry.op_def("MatMul"), links.Links(reference, "reference/tf.matmul"))
    assert "| inputs | `a: T`, `b: T` |" in table
    assert "bool; default False" in table
    assert "_matmul_grad" in table
    assert "matmul.cc" in table
    nothing_back = pages.op_table(op_registry.op_def("Shape"), links.Links(reference, "reference/tf.shape"))
    assert "none: nothing flows back" in nothing_back
    assert "| effect |" not in nothing_back
    switch = pages.op_table(op_registry.op_def("Switch"), links.Links(reference, "reference/ops/x"))
    assert "| flow | switch (" in switch
    reading = pages.op_table(op_registry.op_def("ReadVariableOp"), links.Links(reference, "reference/ops/x"))
    assert "| effect | reads (" in reading


def test_deprecated_names_point_to_the_current_one(reference: names.Reference, texts: dict[str, str]) -> None:
    assert reference.entries["tf.sub"] is reference.entries["tf.subtract"]
    assert "Deprecated: `tf.sub`" in texts["tf.subtract"]
    assert "Deprecated name of [`tf.subtract`](tf.subtract.md)." in texts["tf"]


def test_sections_of_a_docstring() -> None:
    text = inspect.cleandoc("""Says `x`.

        More about `tf.add` and a_name*.

        Args:
            x: What, over
                two lines.
            *rest: The rest.

        Returns:
            A tensor.

        Raises:
            ValueError: If not.

        Example:
            >>> 1 + 1
            2
    """)
    lines = docstrings.render(text, lambda code: f"<{code}>").splitlines()
    assert lines[:3] == ["Says <x>.", "", "More about <tf.add> and a\\_name\\*."]
    assert lines[4:6] == [":param x: What, over", "  two lines."]
    assert lines[6:9] == [":param \\*rest: The rest.", ":returns: A tensor.", ":raises ValueError: If not."]
    assert lines[-4:] == ["```pycon", ">>> 1 + 1", "2", "```"]


def test_classes_in_signatures_are_named_in_full_where_several_have_that_name(
    reference: names.Reference, texts: dict[str, str]
) -> None:
    """The site generator would not know which of them a signature means."""
    last_parts: dict[str, set[str]] = {}
    for name, entry in reference.entries.items():
        if inspect.isclass(entry.value):
            last_parts.setdefault(name.rpartition(".")[2], set()).add(name)
    several = {name for name, full in last_parts.items() if len(full) > 1}
    assert "Dataset" in several
    unclear = [
        f"{page}: {line}"
        for page, text in texts.items()
        for line in re.findall(r"\{py:(?:function|class|method)\} [\w.]+(.*)", text)
        for name in re.findall(r"(?:: |-> |\[|\| |, )([A-Z]\w*)(?=[\[\]|,) ]|$)", line)
        if name in several
    ]
    assert unclear == []


def test_signatures_show_defaults_by_their_public_names() -> None:
    def function(x: Any, *, dtype: Any = tf.float32, act: Any = abs, state: Any = tf) -> None: ...

    assert signatures.signature(function) == "(x, *, dtype=tf.float32, act=abs, state=...) -> None"
