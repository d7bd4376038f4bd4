"""Damaged libraries of functions: after any change, importing and running give a result or a clear error."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from tests.data import golden_graphs as golden
from tests.graph.test_graph_def_fuzz import flip_bits, try_to_use

SECONDS = 0.4  # For each kind of damage.
NAMES = ("defined_functions", "functional_loops", "traced_functions")


def any_node(library: Any, rng: random.Random) -> Any:
    return rng.choice([node for function in library.function for node in function.node_def])


def delete_node(library: Any, rng: random.Random) -> None:
    function = rng.choice([function for function in library.function if function.node_def])
    del function.node_def[rng.randrange(len(function.node_def))]


def delete_function(library: Any, rng: random.Random) -> None:
    del library.function[rng.randrange(len(library.function))]


def swap_names(library: Any, rng: random.Random) -> None:
    one, other = rng.sample(range(len(library.function)), 2)
    first, second = library.function[one].signature, library.function[other].signature
    first.name, second.name = second.name, first.name


def rewire(library: Any, rng: random.Random) -> None:
    node, other = any_node(library, rng), any_node(library, rng)
    texts = [*other.input, other.name, f"{other.name}:output:0", "^" + other.name, "", "^", ":", "x:y:z", "x:0"]
    if node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(texts)
    else:
        node.input.append(rng.choice(texts))


def change_op(library: Any, rng: random.Random) -> None:
    function = rng.choice(library.function).signature.name
    any_node(library, rng).op = rng.choice([any_node(library, rng).op, function, "NoSuchOp", ""])


def change_attr(library: Any, rng: random.Random) -> None:
    node, other = any_node(library, rng), any_node(library, rng)
    if node.attr:
        key = rng.choice(sorted(node.attr))
        if rng.random() < 0.3:
            del node.attr[key]
        elif rng.random() < 0.3:
            node.attr[key].placeholder = "T"
        elif other.attr:
            node.attr[key].CopyFrom(other.attr[rng.choice(sorted(other.attr))])


def change_callee(library: Any, rng: random.Random) -> None:
    nodes = [node for function in library.function for node in function.node_def]
    values = [value for node in nodes for value in node.attr.values() if value.HasField("func")]
    if values:
        rng.choice(values).func.name = rng.choice(library.function).signature.name


def change_signature(library: Any, rng: random.Random) -> None:
    signature = rng.choice(library.function).signature
    args = rng.choice([signature.input_arg, signature.output_arg])
    kind = rng.randrange(4)
    if kind == 0 and args:
        del args[rng.randrange(len(args))]
    elif kind == 1 and args:
        rng.choice(args).type = rng.choice([0, 1, 3, 7, 20, 99])
    elif kind == 2:
        args.add(name=rng.choice(["x", "y", "", "new"]), type=1)
    elif args:
        rng.choice(args).type_attr = "T"


def change_results(library: Any, rng: random.Random) -> None:
    function = rng.choice(library.function)
    if function.ret:
        key = rng.choice(sorted(function.ret))
        other = rng.choice([f for f in library.function if f.ret])
        function.ret[key] = rng.choice([*other.ret.values(), "", "x", "nowhere:0:0"])


@pytest.fixture
def mode() -> None:
    """Both ways are tried by turns: one test is enough."""


def flip_bits_of(library: Any, rng: random.Random) -> None:
    library.ParseFromString(flip_bits(library.SerializeToString(), rng))


@pytest.mark.parametrize(
    "damage",
    [delete_node, delete_function, swap_names, rewire, change_op, change_attr, change_callee, change_signature,
     change_results, flip_bits_of],
)  # fmt: skip
def test_a_damaged_library_gives_clear_errors(damage: Callable[[Any, random.Random], None]) -> None:
    rng = random.Random(damage.__name__)
    graphs = [(golden.load(name), golden.steps(name)) for name in NAMES]
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        original, steps = rng.choice(graphs)
        graph_def = type(original)()
        graph_def.CopyFrom(original)
        try:
            for _ in range(rng.randint(1, 2)):
                if graph_def.library.function:
                    damage(graph_def.library, rng)
        except DecodeError:
            continue
        try_to_use(graph_def, steps)
