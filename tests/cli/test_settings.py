"""Command-line options override environment variables, which override the settings file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
BUGGY = """\
import torch, triton, triton.language as tl
@triton.jit
def k(x): tl.store(x + tl.arange(0, 8), 1.0)
k[(1,)](torch.empty(7))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with settings that select JSON and do not fail on errors."""
    (tmp_path / "buggy.py").write_text(BUGGY)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.ttools]\nthreads = 1\n[tool.ttools.sanitize]\nformat = 'json'\noutput = 'r.json'\n"
        "check = ['memcheck']\n"
    )
    return tmp_path


def test_flags_before_environment_before_file(ttools: Run, project: Path) -> None:
    assert ttools("sanitize", "buggy.py").returncode == 1
    assert json.loads((project / "r.json").read_text())["findings"]
    (project / "r.json").unlink()
    overridden = ttools("sanitize", "buggy.py", TTOOLS_SANITIZE_OUTPUT="s.json")
    assert overridden.returncode == 1
    assert (project / "s.json").is_file()
    assert not (project / "r.json").exists()
    typed = ttools(
        *("sanitize", "--format", "text", "--output", "-", "buggy.py"),
        TTOOLS_SANITIZE_FORMAT="junit",
    )
    assert "buggy.py:3" in typed.stdout
    assert "error[oob_store]" in typed.stdout


def test_former_names_of_options(ttools: Run, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    for name in ("gpu", "device"):
        settings.write_text(f"[tool.ttools.profile]\n{name} = 'h10'\n")
        assert "there is no GPU `h10`" in ttools("profile", "-c", "pass").stderr
        refused = ttools("profile", "-c", "pass", TTOOLS_PROFILE_GPU="h30")
        assert "there is no GPU `h30`" in refused.stderr
        refused = ttools("profile", "-c", "pass", TTOOLS_PROFILE_DEVICE="h30")
        assert "there is no GPU `h30`" in refused.stderr
        for option in ("--gpu", "--device"):
            assert "there is no GPU `h40`" in ttools("profile", option, "h40", "-c", "1").stderr
    assert "--device " not in ttools("profile", "--help").stdout


def test_doctor_prints_them(called_ttools: Run, project: Path) -> None:
    checks_found = json.loads(called_ttools("doctor", "--json", TTOOLS_THREADS="2").stdout)[
        "checks"
    ]
    (row,) = (check for check in checks_found if check["name"] == "settings")
    assert str(project / "pyproject.toml") in row["detail"]
    assert "TTOOLS_THREADS=1 (the environment has 2)" in row["detail"]
    assert "memcheck" in row["detail"]


@pytest.mark.parametrize(
    ("text", "environment", "sentence"),
    [
        ("[tool.ttools.sanitise]\n", {}, "no such command; did you mean `sanitize`?"),
        ("[tool.ttools.sanitize]\nfail-no = 'note'", {}, "`--fail-no`; did you mean `fail-on`?"),
        ("[tool.ttools.sanitize]\nformat = ['json']", {}, "takes one value, not a list"),
        ("", {"TTOOLS_TUNE_TRAILS": "3"}, "TTOOLS_TUNE_TRAILS: there is no option `--trails`"),
        ("[tool.ttools.sanitize]\nfail-on = 'all'", {}, "'all' is not one of"),
    ],
)
def test_unknown_settings_are_refused(
    called_ttools: Run, tmp_path: Path, text: str, environment: dict[str, str], sentence: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    result = called_ttools("sanitize", "x.py", **environment)
    assert result.returncode == 2
    assert sentence in " ".join(result.stderr.replace("│", " ").split())


def test_variables_of_ttools_are_not_taken_for_options_of_a_command(called_ttools: Run) -> None:
    assert called_ttools("cache", TTOOLS_CACHE_DIR="here").returncode == 0


def test_quiet_and_verbose(called_ttools: Run, ttools: Run, project: Path) -> None:
    (project / "nothing.py").write_text("")
    assert "note: " in ttools("interpret", "nothing.py").stderr
    assert ttools("--quiet", "interpret", "nothing.py").stderr == ""
    loud = called_ttools("-v", "interpret", "--grid", "1", "nothing.py")
    assert f"settings of {project / 'pyproject.toml'}: TTOOLS_THREADS=1, sanitize" in loud.stderr
    assert "Traceback" in loud.stderr
    both = called_ttools("-q", "-v", "doctor")
    assert both.returncode == 2
    assert "cannot be used together" in both.stderr


def test_suggestions(called_ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    assert "`sanitize`" in called_ttools("sanitise").stderr
    assert "--fail-on" in called_ttools("sanitize", "--fial-on", "note", "x.py").stderr
    mistyped = called_ttools("sanitize", "--check", "memchek", "x.py")
    assert "there is no check `memchek`; did you mean `memcheck`?" in mistyped.stderr
