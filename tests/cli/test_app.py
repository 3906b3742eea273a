"""The command itself: help, version, completion, and how errors of ours end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.metadata import version

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


def test_unknown_command(called_ttools: Run) -> None:
    done = called_ttools("interpet")
    assert done.returncode == 2
    assert "interpet" in done.stderr


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("ttools in", "interpret"), ("ttools interpret --thr", "--threads")],
)
def test_shell_completion(started_ttools: Run, typed: str, expected: str) -> None:
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
