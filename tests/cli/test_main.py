"""The `thalweg` command finds its subcommands, and tells what is wrong in one line."""

import importlib
import importlib.util
import subprocess
import sys
import types

import pytest

from thalweg.cli import main as cli_main


def with_command(monkeypatch, run):
    module = types.ModuleType("thalweg.cli.probe")
    module.HELP = "Tries something."
    module.add_arguments = lambda parser: parser.add_argument("number", type=int)
    module.run = run
    monkeypatch.setitem(sys.modules, "thalweg.cli.probe", module)
    monkeypatch.setattr(cli_main, "commands", lambda: ["probe"])


def test_a_subcommand_gets_its_options_and_gives_the_exit_code(monkeypatch):
    with_command(monkeypatch, lambda options: options.number + 1)
    assert cli_main.main(["probe", "2"]) == 3


def test_bad_input_is_one_line(monkeypatch, capsys):
    def run(options):
        raise ValueError(f"{options.number} is too large")

    with_command(monkeypatch, run)
    assert cli_main.main(["probe", "7"]) == 1
    assert capsys.readouterr().err == "thalweg probe: 7 is too large\n"


def test_an_unknown_command_names_the_known_ones(monkeypatch, capsys):
    with_command(monkeypatch, lambda options: 0)
    with pytest.raises(SystemExit):
        cli_main.main(["nothing"])
    assert "probe" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "meant"), [(["profle"], "profile"), (["model", "freze"], "freeze")])
def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(capsys, typed, meant):
    with pytest.raises(SystemExit):
        cli_main.main(typed)
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named_first(capsys):
    assert cli_main.main(["place", "nowhere.pb"]) == 1
    assert capsys.readouterr().err == "thalweg place: nowhere.pb: No such file or directory\n"


def test_every_subcommand_has_help():
    for name in cli_main.commands():
        with pytest.raises(SystemExit) as end:
            cli_main.main([name, "--help"])
        assert end.value.code == 0


def test_the_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "thalweg", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: thalweg")


def test_the_version_is_ours_and_that_of_the_api(capsys):
    with pytest.raises(SystemExit) as end:
        cli_main.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == "thalweg 0.1.0 (API of TensorFlow 1.15.0)\n"


def test_every_command_is_described_in_one_style():
    for name in cli_main.commands():
        text = importlib.import_module(f"thalweg.cli.{name}").HELP
        assert text[0].islower(), name
        assert not text.endswith("."), name


def test_completion_needs_shtab_or_prints_the_commands(capsys):
    code = cli_main.main(["completion", "bash"])
    captured = capsys.readouterr()
    if importlib.util.find_spec("shtab") is None:
        assert code == 1
        assert "thalweg[completion]" in captured.err
    else:
        assert code == 0
        assert "checkpoint" in captured.out
