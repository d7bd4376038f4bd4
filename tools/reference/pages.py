"""The pages of the reference: one for each function and class, each namespace, and each family of op types."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from reference import classes, op_facts
from reference.docstrings import docstring, inline, render, summary
from reference.links import REFERENCE, Links, op_page
from reference.names import ROOT, Entry, Reference
from reference.signatures import signature
from thalweg.graph.definitions import op_registry
from thalweg.graph.definitions.op_registry import OpDef

# A function that names more op types than this is described by their names alone.
_MOST_OPS = 3


def all_pages(reference: Reference) -> dict[str, str]:
    """The text of each page, by its path below the folder of the reference, without an ending."""
    pages = {space: _space_page(reference, space) for space in reference.spaces}
    for entry in reference.unique():
        if entry.kind != "constant":
            pages[entry.page] = _entry_page(reference, entry)
    families: dict[str, list[OpDef]] = {}
    for definition in op_registry.all_ops():
        families.setdefault(op_page(definition), []).append(definition)
    for page, definitions in families.items():
        pages[page] = _family_page(reference, page, definitions)
    pages["ops/index"] = _ops_page(reference, families)
    pages["index"] = _index_page(reference)
    return pages


def _cell(text: str) -> str:
    """Text in a table of Markdown."""
    return text.replace("\n", " ").replace("|", "\\|") if "\\|" not in text else text.replace("\n", " ")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


# --- Functions and classes ------------------------------------------------------------------------------------


def _entry_page(reference: Reference, entry: Entry) -> str:
    links = Links(reference, f"{REFERENCE}/{entry.page}")
    parts = ["---\norphan: true\n---", f"# {entry.name}", _path(links, entry.space)]
    if entry.kind == "function":
        parts.append(
            _directive("py:function", entry.name + signature(entry.value), render(docstring(entry.value), links.code))
        )
    elif entry.kind == "message":
        parts.append(_directive("py:class", entry.name, classes.message_body(entry.value, links)))
    else:
        parts.append(_directive("py:class", entry.name + signature(entry.value), classes.body(reference, entry, links)))
    parts.append(_names(entry))
    if entry.kind == "function":
        parts.append(_ops_of_function(entry.value, links))
    place = op_facts.source_of(entry.value)
    if place is not None:
        place = op_facts.Source(place.file, place.line, "")
        parts.append(f"Defined in {links.source(place)}")
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _directive(name: str, argument: str, body: str) -> str:
    return f"::::::{{{name}}} {argument}\n\n{body}\n::::::"


def _path(links: Links, space: str) -> str:
    return f"{links.page('Reference', 'index')} › {links.page(space, space)}"


def _names(entry: Entry) -> str:
    parts = []
    if entry.aliases:
        parts.append("Also " + ", ".join(f"`{name}`" for name in entry.aliases) + ".")
    if entry.deprecated:
        parts.append("Deprecated: " + ", ".join(f"`{name}`" for name in entry.deprecated) + ".")
    return " ".join(parts)


def _ops_of_function(function: Any, links: Links) -> str:
    names = op_facts.ops_of(function)
    module = inspect.unwrap(function).__module__
    own = [name for name in names if op_registry.op_def(name).module == module]
    shown = own if len(own) <= _MOST_OPS else []
    rest = [name for name in names if name not in shown]
    parts = []
    for name in shown:
        definition = op_registry.op_def(name)
        parts.append(f"## Op type {name}\n\n" + op_table(definition, links))
    if rest:
        parts.append(
            f"{'Further op' if shown else 'Op'} types that it adds to the graph: {', '.join(map(links.op, rest))}."
        )
    return "\n\n".join(parts)


# --- Op types -------------------------------------------------------------------------------------------------


def op_table(definition: OpDef, links: Links) -> str:
    """The registry's facts about an op type, as a table."""
    rows: list[tuple[str, str]] = []
    for title, arguments in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        text = ", ".join(f"`{a.name}: {op_facts.argument_type(a)}`" for a in arguments)
        rows.append((title, text or "none"))
    kernel_types = op_facts.kernel_types(definition)
    for attr in definition.attrs.values():
        text = inline(op_facts.attribute_values(attr))
        if attr.name in kernel_types:
            text += f"; kernels for {', '.join(kernel_types[attr.name])}"
        rows.append((f"`{attr.name}`", text))
    sentence, place = op_facts.shape_rule(definition)
    rule = " ".join(
        filter(None, [inline(sentence), f"({links.source(place)})" if place and sentence else links.source(place)])
    )
    rows.append(("static shape", rule or "unknown until the step runs"))
    differentiable, place = op_facts.gradient(definition)
    rows.append(("gradient", f"{differentiable}: {links.source(place)}" if place else differentiable))
    how, places = op_facts.implementation(definition)
    rows.append(("computed", ": ".join(filter(None, [how, ", ".join(map(links.source, places))]))))
    for title, kind in (("effect", definition.effect), ("flow", definition.flow)):
        if kind.value != "none":
            rows.append((title, f"{kind.value} ({links.source(op_facts.source_of(type(kind)))})"))
    return _table(("declared", links.source(op_facts.declaration(definition))), list(rows))


def _raw_signature(definition: OpDef) -> str:
    inferred = {a for arg in definition.inputs for a in (arg.type_attr, arg.number_attr, arg.type_list_attr) if a}
    attrs = [
        f"{a.name}={op_facts._default_text(a.default)}" if a.has_default and _is_expression(a) else a.name
        for a in definition.attrs.values()
        if a.name not in inferred
    ]
    arguments = [*(arg.name for arg in definition.inputs), *attrs, "name=None"]
    return f"(*, {', '.join(arguments)})"


def _is_expression(attr: Any) -> bool:
    return attr.kind in ("bool", "int", "float", "string")


def _family_page(reference: Reference, page: str, definitions: list[OpDef]) -> str:
    links = Links(reference, f"{REFERENCE}/{page}")
    module = page.removeprefix("ops/")
    title = summary(sys.modules[f"thalweg.{module}"])
    parts = [
        "---\norphan: true\n---", f"# Op types of {module}",
        f"{links.page('Reference', 'index')} › {links.page('op types', 'ops/index')}", inline(title),
    ]  # fmt: skip
    for definition in definitions:
        body = _joined([inline(definition.doc), op_table(definition, links)])
        parts.append(_directive("py:function", f"tf.raw_ops.{definition.name}{_raw_signature(definition)}", body))
    return _joined(parts)


def _ops_page(reference: Reference, families: dict[str, list[OpDef]]) -> str:
    links = Links(reference, f"{REFERENCE}/ops/index")
    rows: list[tuple[str, ...]] = []
    for page, definitions in sorted(families.items()):
        module = page.removeprefix("ops/")
        title = summary(sys.modules[f"thalweg.{module}"])
        rows.append((links.page(f"`{module}`", page), inline(title), ", ".join(links.op(d.name) for d in definitions)))
    count = sum(map(len, families.values()))
    text = (
        f"The {count} op types of a GraphDef, by the module that declares them. Each is a function of keyword "
        "arguments under `tf.raw_ops`. Those with an underscore in front are made by passes; programs do not write "
        "them."
    )
    return _joined(["# Op types", text, _table(("module", "", "op types"), rows)])


# --- Namespaces -----------------------------------------------------------------------------------------------


def _space_page(reference: Reference, space: str) -> str:
    links = Links(reference, f"{REFERENCE}/{space}")
    parts = [f"# {space}"]
    module = reference.modules.get(space)
    if module is not None:
        parts.append(render(docstring(module), links.code))
        first = reference.space_of_module(module)
        if first != space:
            return _joined([*parts, f"The same module as {links.code(first)}."])
    below = [other for other in reference.spaces if other.rpartition(".")[0] == space]
    if below:
        parts.append("Namespaces: " + ", ".join(links.code(name) for name in below) + ".")
    groups: dict[str, list[tuple[str, ...]]] = {"Classes": [], "Functions": [], "Protocol buffers": [], "Constants": []}
    titles = {"class": "Classes", "function": "Functions", "message": "Protocol buffers", "constant": "Constants"}
    for name in reference.spaces[space]:
        entry = reference.entries.get(name)
        if entry is not None:
            groups[titles[entry.kind]].append((_name_cell(entry, name, links), _summary_cell(entry, name, links)))
    for title, rows in groups.items():
        if rows:
            parts.append(f"## {title}\n\n" + _table(("name", ""), rows))
    return _joined(parts)


def _name_cell(entry: Entry, name: str, links: Links) -> str:
    return f"`{name}`" if entry.kind == "constant" else links.page(f"`{name}`", entry.page)


def _summary_cell(entry: Entry, name: str, links: Links) -> str:
    if name in entry.deprecated:
        return f"Deprecated name of {links.code(entry.name)}."
    if entry.kind == "constant":
        text = repr(entry.value)
        return f"`{text}`" if len(text) < 100 and " at 0x" not in text else f"A {type(entry.value).__name__}."
    if entry.kind == "message":
        return classes.message_summary(entry.value)
    text = inline(summary(entry.value), links.code)
    return text if name == entry.name else f"{text} (As {links.code(entry.name)}.)"


def _index_page(reference: Reference) -> str:
    links = Links(reference, f"{REFERENCE}/index")
    text = (
        f"Every public name: {len(reference.entries)} names of {len(reference.unique())} functions, classes and "
        "constants, made from the registry and the docstrings, whose examples the tests run. `tf` stands for "
        "`import thalweg as tf`; `tf.compat.v1` is `tf` itself. The op types of the graph are on pages of their own."
    )
    rows = [
        (links.page(f"`{space}`", space), str(len(names) or ""), _names_cell(reference, space, links))
        for space, names in reference.spaces.items()
    ]
    tree = ["```{toctree}\n:hidden:\n", *reference.spaces, "ops/index", "```"]
    return _joined(
        [
            "# Reference",
            text,
            f"{links.page('Op types', 'ops/index')} · {{ref}}`genindex`",
            _table(("namespace", "names", ""), rows),
            "\n".join(tree),
        ]
    )


def _names_cell(reference: Reference, space: str, links: Links) -> str:
    """The first names of a namespace, or the namespace that it is another name of."""
    names, module = reference.spaces[space], reference.modules.get(space)
    if module is not None and reference.space_of_module(module) != space:
        return f"The same module as {links.code(reference.space_of_module(module))}."
    shown = [f"`{name.rpartition('.')[2]}`" for name in names[:6]]
    return ", ".join(shown) + (", …" if len(names) > 6 else "")


__all__ = ["ROOT", "all_pages", "op_table"]
