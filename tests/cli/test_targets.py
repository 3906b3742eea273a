"""Options before the target belong to ttools; all words after it belong to the script."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command

from ttools.cli.app import app
from ttools.cli.targets import TTIR_SUFFIX, kernels_path, read_target, separate
from ttools.core.errors import UsageError
from ttools.core.process.script import Target

TAKES_VALUE = {"--threads": True, "--stats": False, "-m": True, "-c": True, "--only": True}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("s.py --threads 2", "-- s.py --threads 2"),
        ("--threads 2 s.py -m x", "--threads 2 -- s.py -m x"),
        ("--threads=2 s.py", "--threads=2 -- s.py"),
        ("--stats s.py --stats", "--stats -- s.py --stats"),
        ("-m mod --stats", "-m mod -- --stats"),
        ("-mmod -c", "-mmod -- -c"),
        ("--stats -c code -m", "--stats -c code -- -m"),
        ("--only -m s.py -m", "--only -m -- s.py -m"),
        ("-- s.py --stats", "-- s.py --stats"),
        ("- --stats", "-- - --stats"),
        ("k.ttir --threads 4", "k.ttir --threads 4"),
        ("--stats k.ttir --threads 4", "--stats k.ttir --threads 4"),
        ("s.py k.ttir --stats", "-- s.py k.ttir --stats"),
        ("--stats", "--stats"),
        ("-m", "-m"),
        ("", ""),
    ],
)
def test_separate(line: str, expected: str) -> None:
    assert separate(line.split(), TAKES_VALUE) == expected.split()


@pytest.mark.parametrize(
    ("line", "text", "has_note"),
    [
        ("s.py --device-map off", "pass", True),
        ("s.py --device-map=off", "pass", True),
        ("s.py --device-map off", "print('--device-map')", False),
        ("-- s.py --device-map off", "pass", False),
        ("--device-map off s.py --unknown", "pass", False),
        ("-m s s.py --device-map off", "pass", False),
    ],
)
def test_a_note_names_options_that_the_script_gets(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, text: str, has_note: bool
) -> None:
    (here / "s.py").write_text(text)
    command = get_command(app).commands["interpret"]  # type: ignore[attr-defined]
    command.make_context("interpret", line.split())
    assert ("`--device-map` is passed to s.py" in capsys.readouterr().err) == has_note


@pytest.mark.parametrize(
    ("words", "module", "code", "expected"),
    [
        (["s.py", "a"], None, None, Target(kind="script", name="s.py", arguments=("a",))),
        (["a"], "mod", None, Target(kind="module", name="mod", arguments=("a",))),
        ([], None, "pass", Target(kind="code", name="pass")),
        ([], None, "", Target(kind="code", name="")),
    ],
)
def test_read_target(
    words: list[str],
    module: str | None,
    code: str | None,
    expected: Target,
    here: Path,
) -> None:
    (here / "s.py").touch()
    assert read_target(words, module, code) == expected


def test_nothing_to_run() -> None:
    with pytest.raises(UsageError, match="nothing to run"):
        read_target([], None, None)


def test_the_path_of_a_ttir_file(here: Path) -> None:
    (here / "k.ttir").touch()
    assert kernels_path(["k.ttir"], TTIR_SUFFIX) == "k.ttir"
    assert kernels_path(["s.py", "k.ttir"], TTIR_SUFFIX) is None
    assert kernels_path([], TTIR_SUFFIX) is None
    with pytest.raises(UsageError, match=r"no file `gone.ttir`"):
        kernels_path(["gone.ttir"], TTIR_SUFFIX)
    with pytest.raises(UsageError, match="takes no arguments, but got `a b`"):
        kernels_path(["k.ttir", "a", "b"], TTIR_SUFFIX)
