"""The command line as a whole: help, version, completion, and errors of ttools."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest

from ttools.cli.app import COMMANDS

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_lists_all_commands(started_ttools: Run) -> None:
    result = started_ttools("--help")
    assert result.returncode == 0
    for name in COMMANDS:
        assert f" {name} " in result.stdout


@pytest.mark.parametrize("command", ["", "sanitize"])
def test_help_imports_only_what_the_command_declares(command: str) -> None:
    """Check that only commands that run import reports, metrics and GPUs."""
    script = (
        "import sys, ttools.cli.app\n"
        "try: ttools.cli.app.main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    listed = subprocess.run(
        [sys.executable, "-c", script, *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    imported = set(listed.stderr.split())
    commands = {name for name in imported if re.fullmatch(r"ttools\.cli\.\w+\.command", name)}
    assert commands == ({f"ttools.cli.{command}.command"} if command else set())
    assert command or "importlib.metadata" not in imported
    assert not imported & {
        "torch",
        "triton",
        "ttools.cli.profile.report",
        "ttools.core.compilation.compile_errors",
        "ttools.core.device_map.mapping",
        "ttools.core.gpus.devices",
        "ttools.core.reports.sizes",
        "ttools.profiler.metrics",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_their_first_sentences(name: str) -> None:
    command = COMMANDS[name].load(name)
    assert command.help.split("\n\n")[0] == COMMANDS[name].summary


def test_no_arguments_is_a_usage_error(called_ttools: Run) -> None:
    result = called_ttools()
    assert result.returncode == 2
    assert "interpret" in result.stdout + result.stderr


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(called_ttools: Run, option: str) -> None:
    result = called_ttools(option)
    assert (result.stdout, result.returncode) == (f"ttools {version('ttools-cli')}\n", 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_help(called_ttools: Run, command: str) -> None:
    result = called_ttools(*command.split(), "--help", COLUMNS="80")
    assert result.returncode == 0
    assert ("--stdio" if command == "lsp" else "--output") in result.stdout
    about = re.split(r"\n *\n", result.stdout.partition("╭")[0].strip())[1:]
    for lines in map(str.splitlines, about):  # paragraphs are filled
        for line, following in pairwise(map(str.strip, lines)):
            assert len(f" {line} {following.split()[0]}") >= 79, line


@pytest.mark.parametrize("flags", [[], ["-q"], ["-v"], ["--quiet"]])
@pytest.mark.parametrize("words", [command.split() for command in COMMANDS if " " in command])
def test_two_word_commands_may_follow_global_options(
    called_ttools: Run, words: list[str], flags: list[str]
) -> None:
    result = called_ttools(*flags, *words, "--help")
    assert result.returncode == 0
    assert f"ttools {' '.join(words)} " in result.stdout
    first = called_ttools(*flags, words[0], "--help")
    assert f" {' '.join(words)} " in first.stdout


def test_a_mistyped_script_name_is_not_taken_for_a_command(
    called_ttools: Run, tmp_path: Path
) -> None:
    result = called_ttools("profile", "comparex", "a.json", "b.json")
    assert result.returncode == 2
    assert "did you mean `ttools profile compare`?" in result.stderr
    (tmp_path / "comparex").write_text("import sys; sys.exit(7)\n")
    assert "did you mean" not in called_ttools("profile", "comparex").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cache", "clearx"], "'clearx' is not one of 'show', 'clear'; did you mean `clear`?"),
        (["tune", "--effort", "quik"], "did you mean `quick`?"),
        (["sanitize", "--threads", "0"], "must be greater than or equal to 1"),
        (["sanitize", "--timeout", "soon"], "must be a number"),
        (["sanitize", "--threads", "1.5"], "must be an integer"),
    ],
)
def test_invalid_values_are_reported_in_sentences(
    called_ttools: Run, words: list[str], sentence: str
) -> None:
    result = called_ttools(*words)
    assert result.returncode == 2
    text = " ".join(result.stderr.replace("│", " ").split())
    assert sentence in text
    assert "Value error" not in text
    assert "Input should" not in text


def test_unknown_command(called_ttools: Run) -> None:
    result = called_ttools("interpet")
    assert result.returncode == 2
    assert result.stderr == "error: there is no command `interpet`; did you mean `interpret`?\n"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("run", "`ttools interpret` runs a script"),
        ("help", "see `ttools --help`, and `ttools COMMAND --help`"),
        ("compare", "did you mean `ttools profile compare`?"),
        ("show", "did you mean `ttools tune show`?"),
    ],
)
def test_other_names_of_commands_lead_to_them(called_ttools: Run, word: str, hint: str) -> None:
    result = called_ttools(word, "script.py")
    assert result.returncode == 2
    assert result.stderr == f"error: there is no command `{word}`; {hint}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--verbos", "doctor"], "`ttools` has no option `--verbos`; did you mean `--verbose`?"),
        (["tune", "--gpuss", "0"], "`ttools tune` has no option `--gpuss`; did you mean `--gpus`?"),
        (["sanitize", "--format", "yaml"], "'yaml' is not one of 'text', 'markdown', 'json'"),
        (["replay", "train.py"], "`train.py` is not a record: give FILE.tt"),
        (["replay"], "nothing to replay: give FILE.tt"),
    ],
)
def test_wrong_usage_is_one_sentence(called_ttools: Run, words: list[str], sentence: str) -> None:
    result = called_ttools(*words)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert sentence in line


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
        ("ttools profile --gpu h10", "h100"),
        ("ttools profile --gpu gfx94", "gfx942"),
        ("ttools profile --device h10", "h100"),
        ("ttools profile --gp", "--gpu"),
        ("ttools tune --gpu sm_10", "sm_100"),
        ("ttools inspect --gpu sm_8", "sm_80"),
        ("ttools sanitize --gpu h10", "h100"),
        ("ttools verify --gpu h10", "h100"),
        ("ttools verify --format ju", "junit"),
        ("ttools profile ./scr", "./script.py"),
        ("ttools sanitize --only ad", "add_kernel"),
        ("ttools rep", "replay"),
        ("ttools inspect --stage tt", "ttgir"),
        ("ttools inspect --against h10", "h100"),
        ("ttools sanitize --instrument consan,gs", "consan,gsan"),
        ("ttools sanitize --device-map cu", "cuda=cpu"),
        ("ttools interpret --device-map cuda=cpu,s", "cuda=cpu,sms="),
    ],
)
def test_shell_completion(called_ttools: Run, tmp_path: Path, typed: str, expected: str) -> None:
    (tmp_path / "script.py").write_text("@triton.jit\ndef add_kernel(x): pass\ndef add(): pass\n")
    assert expected in completed(called_ttools, typed)


def test_shell_completion_in_a_new_process(started_ttools: Run) -> None:
    assert "interpret" in completed(started_ttools, "ttools in")


def completed(run: Run, typed: str) -> list[str]:
    """Return the completions of a command line that bash would show."""
    position = str(len(typed.split(" ")) - 1)
    result = run(_TTOOLS_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=position)
    return result.stdout.split()


def test_completion_script_names_the_command(started_ttools: Run) -> None:
    result = started_ttools(
        "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert "_TTOOLS_COMPLETE=complete_bash" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        ("TtoolsError('it broke')", 3, "error: it broke"),
        ("UnsupportedError('tt.cat of dogs', help='use cats')", 3, "unsupported: tt.cat of dogs"),
        ("UsageError('not like this')", 2, "error: not like this"),
    ],
)
def test_errors_of_ttools_are_sentences(
    ttools: Run, error: str, status: int, sentence: str
) -> None:
    result = ttools("interpret", "-c", f"from ttools.core.errors import *\nraise {error}")
    assert result.returncode == status
    assert sentence in result.stderr
    assert "During: running <string>:2" in result.stderr
    assert "Traceback" not in result.stderr
