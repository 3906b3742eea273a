"""The command itself: help, version, completion, and how errors of ours end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from ttools.cli.app import app

COMMANDS = [str(command.name) for command in app.registered_commands]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_lists_what_exists(started_ttools: Run) -> None:
    done = started_ttools("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert f" {name} " in done.stdout


def test_no_arguments_is_a_usage_error(called_ttools: Run) -> None:
    done = called_ttools()
    assert done.returncode == 2
    assert "interpret" in done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(called_ttools: Run, option: str) -> None:
    done = called_ttools(option)
    assert (done.stdout, done.returncode) == (f"ttools {version('ttools-cli')}\n", 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_help(called_ttools: Run, command: str) -> None:
    done = called_ttools(*command.split(), "--help")
    assert done.returncode == 0
    assert ("--stdio" if command == "lsp" else "--output") in done.stdout


@pytest.mark.parametrize("flags", [[], ["-q"], ["-v"], ["--quiet"]])
@pytest.mark.parametrize("words", [each.split() for each in COMMANDS if " " in each])
def test_commands_of_two_words_follow_options_of_ttools(
    called_ttools: Run, words: list[str], flags: list[str]
) -> None:
    done = called_ttools(*flags, *words, "--help")
    assert done.returncode == 0
    assert f"ttools {' '.join(words)} " in done.stdout
    first = called_ttools(*flags, words[0], "--help")
    assert f" {' '.join(words)} " in first.stdout


def test_a_script_of_a_mistyped_name_is_no_command(called_ttools: Run, tmp_path: Path) -> None:
    done = called_ttools("profile", "comparex", "a.json", "b.json")
    assert done.returncode == 2
    assert "did you mean `ttools profile compare`?" in done.stderr
    (tmp_path / "comparex").write_text("import sys; sys.exit(7)\n")
    assert "did you mean" not in called_ttools("profile", "comparex").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cache", "clearx"], "'clearx' is not one of 'show', 'clear'; did you mean `clear`?"),
        (["tune", "--effort", "quik"], "did you mean `quick`?"),
        (["sanitize", "--threads", "0"], "must be greater than or equal to 1"),
        (["sanitize", "--timeout", "soon"], "must be a number"),
        (["sanitize", "--threads", "1.5"], "must be an integer"),
    ],
)
def test_refused_values_are_told_in_sentences(
    called_ttools: Run, words: list[str], said: str
) -> None:
    done = called_ttools(*words)
    assert done.returncode == 2
    text = " ".join(done.stderr.replace("│", " ").split())
    assert said in text
    assert "Value error" not in text
    assert "Input should" not in text


def test_unknown_command(called_ttools: Run) -> None:
    done = called_ttools("interpet")
    assert done.returncode == 2
    assert "interpet" in done.stderr


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ttools in", "interpret"),
        ("ttools interpret --thr", "--threads"),
        ("ttools profile comp", "compare"),
        ("ttools profile compare --fail", "--fail-on-regression"),
        ("ttools -q profile view --thr", "--threshold"),
        ("ttools tune ru", "rules"),
        ("ttools tune export --hi", "--history"),
        ("ttools sanitize --check racecheck,mem", "racecheck,memcheck"),
        ("ttools sanitize --format sa", "sarif"),
        ("ttools profile --device h10", "h100"),
        ("ttools profile --target gfx94", "gfx942"),
        ("ttools tune --device sm_10", "sm_100"),
        ("ttools inspect --target sm_8", "sm_80"),
        ("ttools profile ./scr", "./script.py"),
    ],
)
def test_shell_completion(started_ttools: Run, tmp_path: Path, typed: str, expected: str) -> None:
    (tmp_path / "script.py").touch()
    words = typed.split(" ")
    done = started_ttools(
        _TTOOLS_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(words) - 1)
    )
    assert expected in done.stdout.split()


def test_completion_script_names_the_command(started_ttools: Run) -> None:
    done = started_ttools(
        "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert "_TTOOLS_COMPLETE=complete_bash" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        ("TtoolsError('it broke')", 3, "error: it broke"),
        ("UnsupportedError('tt.cat of dogs', help='use cats')", 3, "unsupported: tt.cat of dogs"),
        ("UsageError('not like this')", 2, "error: not like this"),
    ],
)
def test_our_errors_are_sentences(ttools: Run, error: str, status: int, said: str) -> None:
    done = ttools("interpret", "-c", f"from ttools.core.errors import *\nraise {error}")
    assert done.returncode == status
    assert said in done.stderr
    assert "During: running <string>:2" in done.stderr
    assert "Traceback" not in done.stderr
