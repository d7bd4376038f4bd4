"""Tests of tf.flags and tf.app: parsing a command line, bad values, and running a program's main function."""

import copy
import enum
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from thalweg.platform import app, flags, program_flags


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> program_flags.ProgramFlags:
    """A set of flags of every kind, apart from the program's own."""
    monkeypatch.setattr(sys, "argv", ["program"])  # The options of pytest would be read as flags.
    values = program_flags.ProgramFlags()
    flags.DEFINE_string("name", "x", "The name.", flag_values=values)
    flags.DEFINE_string("path", None, "A path.", flag_values=values, short_name="p")
    flags.DEFINE_integer("steps", 3, "Steps.", flag_values=values)
    flags.DEFINE_float("rate", 1, "Rate.", flag_values=values)
    flags.DEFINE_boolean("shuffle", False, "Shuffle.", flag_values=values)
    flags.DEFINE_bool("cache", True, "Cache.", flag_values=values)
    flags.DEFINE_enum("mode", "train", ["train", "eval"], "Mode.", flag_values=values)
    flags.DEFINE_enum_class("color", Color.RED, Color, "Color.", flag_values=values)
    flags.DEFINE_list("layers", ["8", "4"], "Layers.", flag_values=values)
    flags.DEFINE_spaceseplist("words", [], "Words.", flag_values=values)
    flags.DEFINE_multi_string("file", ["a"], "Files.", flag_values=values)
    flags.DEFINE_multi_integer("gpu", None, "GPUs.", flag_values=values)
    return values


def test_defaults_hold_without_arguments(values: program_flags.ProgramFlags) -> None:
    assert values(["prog"]) == ["prog"]
    assert {name: value for name, value in values.flag_values_dict().items() if not name.startswith("help")} == {
        "name": "x", "path": None, "p": None, "steps": 3, "rate": 1.0, "shuffle": False, "cache": True, "mode": "train",
        "color": Color.RED, "layers": ["8", "4"], "words": [], "file": ["a"], "gpu": None,
    }  # fmt: skip
    assert isinstance(values.rate, float)


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        (["--name=y"], "name", "y"),
        (["--name", "y"], "name", "y"),
        (["-name", "y"], "name", "y"),
        (["--name="], "name", ""),
        (["--name=a=b"], "name", "a=b"),
        (["--name", "--steps"], "name", "--steps"),
        (["-p", "/tmp"], "path", "/tmp"),
        (["--steps=-5"], "steps", -5),
        (["--steps", "0x1f"], "steps", 31),
        (["--steps=0o17"], "steps", 15),
        (["--rate=1e-3"], "rate", 1e-3),
        (["--shuffle"], "shuffle", True),
        (["--shuffle=TRUE"], "shuffle", True),
        (["--shuffle=0"], "shuffle", False),
        (["--nocache"], "cache", False),
        (["--mode=eval"], "mode", "eval"),
        (["--color=blue"], "color", Color.BLUE),
        (["--layers=1, 2,3"], "layers", ["1", "2", "3"]),
        (["--layers="], "layers", []),
        (['--layers="a,b",c'], "layers", ["a,b", "c"]),
        (["--words=a  b"], "words", ["a", "b"]),
        (["--file=1", "--file", "2"], "file", ["1", "2"]),
        (["--gpu=0", "--gpu=1"], "gpu", [0, 1]),
        (["--steps=1", "--steps=2"], "steps", 2),
    ],
)
def test_an_argument_sets_its_flag(
    values: program_flags.ProgramFlags, arguments: list[str], name: str, expected: Any
) -> None:
    assert values(["prog", *arguments]) == ["prog"]
    assert getattr(values, name) == values[name].value == expected


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--steps=abc", "flag --steps=abc: invalid literal"),
        ("--steps=1.5", "flag --steps=1.5"),
        ("--rate=fast", "flag --rate=fast: could not convert"),
        ("--shuffle=maybe", "flag --shuffle=maybe: .*boolean"),
        ("--mode=test", r"one of <train\|eval>"),
        ("--color=green", r"one of <red\|blue>"),
    ],
)
def test_a_bad_value_is_refused(values: program_flags.ProgramFlags, argument: str, message: str) -> None:
    with pytest.raises(flags.IllegalFlagValueError, match=message):
        values(["prog", argument])


def test_a_value_may_not_be_missing(values: program_flags.ProgramFlags) -> None:
    with pytest.raises(flags.Error, match="Missing value for flag --steps"):
        values(["prog", "--steps"])


def test_other_arguments_are_left(values: program_flags.ProgramFlags) -> None:
    assert values(["prog", "in.csv", "--steps=5", "out.csv", "-", "--", "--steps=6"]) == [
        "prog", "in.csv", "out.csv", "-", "--steps=6",
    ]  # fmt: skip
    assert values.steps == 5
    assert values(["prog", "--unknown=1", "--steps=7", "-z", "v", "--", "x"], known_only=True) == [
        "prog", "--unknown=1", "-z", "v", "--", "x",
    ]  # fmt: skip
    assert values.steps == 7


def test_an_unknown_flag_is_refused_with_a_suggestion(values: program_flags.ProgramFlags) -> None:
    with pytest.raises(flags.UnrecognizedFlagError, match=r"'step'\. Did you mean: steps"):
        values(["prog", "--step=3"])
    with pytest.raises(flags.UnrecognizedFlagError, match="'noname'"):
        values(["prog", "--noname"])
    with pytest.raises(AttributeError, match="No flag is called 'nope'"):
        _ = values.nope
    with pytest.raises(flags.UnrecognizedFlagError):
        values.nope = 1
    with pytest.raises(KeyError):
        values["nope"]


@pytest.mark.parametrize(("argv", "error"), [("prog", TypeError), ([], ValueError)])
def test_a_command_line_is_a_list(values: program_flags.ProgramFlags, argv: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="argv"):
        values(argv)


def test_the_first_look_at_a_value_parses_sys_argv(
    values: program_flags.ProgramFlags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["prog", "--steps=9", "--somebody_elses=1"])
    assert not values.is_parsed()
    assert values.steps == 9
    monkeypatch.setattr(sys, "argv", ["prog", "--steps=10"])
    assert values.steps == 9, "parsed once"
    values.unparse_flags()
    assert values.steps == 10
    values.unparse_flags()
    values.mark_as_parsed()
    assert values.steps == 3


def test_values_can_be_assigned_and_defaults_changed(values: program_flags.ProgramFlags) -> None:
    values(["prog", "--steps=5"])
    values.set_default("steps", 50)
    values.set_default("name", "z")
    assert (values.steps, values.name) == (5, "z")
    values.rate = 0.25
    assert values.rate == 0.25
    values.layers = ["2"]
    values.unparse_flags()
    values.mark_as_parsed()
    assert (values.steps, values.rate, values.layers) == (50, 1.0, ["8", "4"])


def test_flags_are_a_collection(values: program_flags.ProgramFlags) -> None:
    assert "steps" in values and "nope" not in values
    assert len(values) == len(list(values)) == 13
    assert "steps" in dir(values)
    assert values.get_flag_value("path", 7) == 7
    assert values.find_module_defining_flag("steps") == __name__
    assert getattr(values, "__flags")["steps"].value == 3
    del values.path
    assert "path" not in values
    values(["prog", "--name=y"])
    assert copy.deepcopy(values).name == "y"


def test_the_values_can_be_written_as_arguments(values: program_flags.ProgramFlags) -> None:
    values(["prog", "--noshuffle", "--steps=8", "--gpu=1", "--gpu=2", "--color=blue", "--words=a b"])
    arguments = values.flags_into_string().splitlines()
    assert {"--noshuffle", "--cache", "--steps=8", "--gpu=1", "--gpu=2", "--color=blue", "--layers=8,4"} <= {*arguments}
    before = values.flag_values_dict()
    values.unparse_flags()
    values(["prog", *arguments])
    assert values.flag_values_dict() == before


def test_a_flag_is_defined_once(values: program_flags.ProgramFlags) -> None:
    with pytest.raises(flags.DuplicateFlagError, match=r"'name' is defined twice.*The name"):
        flags.DEFINE_integer("name", 1, "Again.", flag_values=values)
    with pytest.raises(flags.DuplicateFlagError, match="'p'"):
        flags.DEFINE_integer("port", 1, "Again.", flag_values=values, short_name="p")
    assert "port" not in values


@pytest.mark.parametrize(
    ("define", "arguments"),
    [
        (flags.DEFINE_integer, ("n", "abc", "")),
        (flags.DEFINE_integer, ("n", 1.5, "")),
        (flags.DEFINE_float, ("n", "abc", "")),
        (flags.DEFINE_string, ("n", 5, "")),
        (flags.DEFINE_boolean, ("n", "maybe", "")),
        (flags.DEFINE_enum, ("n", "c", ["a", "b"], "")),
        (flags.DEFINE_multi_integer, ("n", ["x"], "")),
    ],
)
def test_a_bad_default_is_refused(define: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    values = flags.FlagValues()
    with pytest.raises(flags.IllegalFlagValueError, match="flag --n="):
        define(*arguments, flag_values=values)
    assert "n" not in values


@pytest.mark.parametrize("name", ["", "a b", None, 5])
def test_a_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(flags.Error, match="name"):
        flags.DEFINE_string(name, "", "", flag_values=flags.FlagValues())


def test_a_definition_takes_old_argument_names_and_bounds_and_no_others() -> None:
    values = flags.FlagValues()
    flags.DEFINE_string(flag_name="old", default_value="a", docstring="Old.", flag_values=values)
    assert (values["old"].value, values["old"].help) == ("a", "Old.")
    holder = flags.DEFINE_integer("n", 1, "", lower_bound=0, upper_bound=4, flag_values=values)
    values(["prog", "--n=4"])
    assert (holder.name, holder.value, holder.default, holder.present) == ("n", 4, 1, True)
    with pytest.raises(flags.IllegalFlagValueError, match=r"in the range \[0, 4\]"):
        values(["prog", "--n=5"])
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        flags.DEFINE_string("s", "", "", flag_values=values, colour=1)


def test_conditions_on_the_values(values: program_flags.ProgramFlags) -> None:
    flags.mark_flag_as_required("path", values)
    flags.register_validator("steps", lambda steps: steps > 0, "must be positive", values)
    flags.mark_bool_flags_as_mutual_exclusive(["shuffle", "cache"], flag_values=values)
    with pytest.raises(flags.IllegalFlagValueError, match="--path must have a value"):
        values(["prog"])
    with pytest.raises(flags.IllegalFlagValueError, match="steps=0: must be positive"):
        values(["prog", "--path=x", "--steps=0"])
    with pytest.raises(flags.IllegalFlagValueError, match=r"(?i)at most one"):
        values(["prog", "--path=x", "--steps=1", "--shuffle"])
    values(["prog", "--path=x", "--steps=1", "--noshuffle"])
    with pytest.raises(flags.IllegalFlagValueError, match="steps=-1: must be positive"):
        values.steps = -1
    with pytest.raises(KeyError):
        flags.mark_flag_as_required("nope", values)


def test_help_lists_every_flag_and_exits(
    values: program_flags.ProgramFlags, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as info:
        values(["prog", "--help"])
    assert info.value.code == 0
    text = capsys.readouterr().out
    assert all(f"--{flag}: " in text for flag in ("name", "steps", "[no]shuffle", "layers"))
    assert "-p,--path: A path." in text and "(default: '3')" in text


@pytest.fixture
def own(values: program_flags.ProgramFlags, monkeypatch: pytest.MonkeyPatch) -> program_flags.ProgramFlags:
    monkeypatch.setattr(flags, "FLAGS", values, raising=False)
    return values


def test_run_calls_main_with_the_rest_and_exits_with_its_result(own: program_flags.ProgramFlags) -> None:
    seen: list[Any] = []

    def main(argv: list[str]) -> int:
        seen.append((argv, own.steps))
        return 4

    with pytest.raises(SystemExit) as info:
        app.run(main, ["prog", "--steps=6", "--unknown", "rest"])
    assert info.value.code == 4
    assert seen == [(["prog", "--unknown", "rest"], 6)]


def test_run_finds_main_and_the_command_line(own: program_flags.ProgramFlags, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys.modules["__main__"], "main", seen.append, raising=False)
    monkeypatch.setattr(sys, "argv", ["prog", "a"])
    with pytest.raises(SystemExit) as info:
        app.run()
    assert (info.value.code, seen) == (None, [["prog", "a"]])
    monkeypatch.delattr(sys.modules["__main__"], "main")
    with pytest.raises(ValueError, match="needs a main function"):
        app.run()


def test_run_reports_a_bad_flag(own: program_flags.ProgramFlags, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as info:
        app.run(lambda argv: pytest.fail("main must not run"), ["prog", "--steps=abc"])
    assert info.value.code == 1
    assert "flag --steps=abc" in capsys.readouterr().err


def test_flags_of_absl_and_of_the_program_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    absl_flags = pytest.importorskip("absl.flags")
    monkeypatch.setattr(sys, "argv", ["prog", "--defined_here=2", "--defined_there=3"])
    flags.DEFINE_integer("defined_here", 1, "")
    absl_flags.DEFINE_integer("defined_there", 1, "")
    was_parsed = flags.FLAGS.is_parsed()
    try:
        flags.FLAGS.unparse_flags()
        assert (flags.FLAGS.defined_there, flags.FLAGS.defined_here) == (3, 2)
        assert absl_flags.FLAGS.defined_here == 2 and "defined_there" in flags.FLAGS.flag_values_dict()
    finally:
        for name in ("defined_here", "defined_there"):
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()
        if was_parsed:
            flags.FLAGS.mark_as_parsed()


def test_old_programs_parse_by_hand(values: program_flags.ProgramFlags, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prog", "--steps=4", "--undefined"])
    values._parse_flags()
    assert values.is_parsed() and values.flag_values_dict()["steps"] == 4


def test_a_command_line_may_name_files_with_flags(values: program_flags.ProgramFlags, tmp_path: Any) -> None:
    (tmp_path / "flags").write_text("--steps=12\n# a comment\n--mode=eval\n")
    assert values(["prog", f"--flagfile={tmp_path / 'flags'}", "--name=y"]) == ["prog"]
    assert (values.steps, values.mode, values.name) == (12, "eval", "y")


def test_a_program_without_flags_does_not_load_absl() -> None:
    program = (
        "import sys, thalweg as tf; assert 'absl' not in sys.modules; tf.flags.FLAGS; assert 'absl' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_program_reads_its_flags(tmp_path: Any) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        '"""Trains."""\n'
        "import thalweg as tf\n"
        "flags = tf.app.flags\n"
        "flags.DEFINE_integer('steps', 1, 'How many.')\n"
        "flags.DEFINE_string('log_dir', '', 'Where.')\n"
        "def main(argv):\n"
        "    print(flags.FLAGS.steps, flags.FLAGS.log_dir, argv[1:])\n"
        "if __name__ == '__main__':\n"
        "    tf.app.run()\n"
    )
    run = lambda *arguments: subprocess.run(  # noqa: E731
        [sys.executable, str(program), *arguments], capture_output=True, text=True, check=False
    )
    assert run("--steps=3", "--log_dir", "x", "rest", "--other").stdout == "3 x ['rest', '--other']\n"
    wrong = run("--steps=many")
    assert wrong.returncode == 1 and "--steps=many" in wrong.stderr
    told = run("--help")
    assert told.returncode == 0 and told.stdout.startswith("Trains.") and "--steps: How many." in told.stdout
