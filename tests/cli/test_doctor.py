"""`ttools doctor` describes the installation, even if parts of it are broken."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def checks(process: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(process.stdout)["checks"]}


@pytest.mark.smoke
def test_healthy_installation(started_ttools: Run) -> None:
    result = started_ttools("doctor", "--json")
    assert result.returncode == 0, result.stdout
    checks_found = checks(result)
    assert "LLVM" in checks_found["llvmlite"]["detail"]
    assert checks_found["triton"]["status"] == "ok"
    assert checks_found["triton driver"]["status"] == "ok"
    assert all(
        set(check) == {"name", "status", "detail", "help"} for check in checks_found.values()
    )


def test_table_and_json_agree(ttools: Run, tmp_path: Path) -> None:
    table = ttools("doctor")
    assert "\x1b[" not in table.stdout
    result = ttools("doctor", "--format", "json", "--output", "report.json")
    assert result.stdout == ""
    names = [
        check["name"] for check in json.loads((tmp_path / "report.json").read_text())["checks"]
    ]
    assert all(name in table.stdout for name in names)


@pytest.mark.parametrize(
    ("broken", "checks_hit"),
    [
        ("triton", ["triton", "triton driver", "proton"]),
        pytest.param("torch", ["torch"], marks=pytest.mark.slow),
        pytest.param("llvmlite", ["llvmlite", "cpu"], marks=pytest.mark.slow),
    ],
)
def test_broken_import_is_reported(
    started_ttools: Run, tmp_path: Path, broken: str, checks_hit: list[str]
) -> None:
    package = tmp_path / "path" / broken
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('lib.so: cannot open')")
    result = started_ttools("doctor", "--json", PYTHONPATH=str(tmp_path / "path"))
    assert result.returncode == 1
    checks_found = checks(result)
    for name in checks_hit:
        assert checks_found[name]["status"] == "error"
        assert "cannot open" in checks_found[name]["detail"]
    assert checks_found["python"]["status"] == "info"


def test_variables_are_explained(ttools: Run) -> None:
    checks_found = checks(
        ttools("doctor", "--json", TRITON_INTERPRET="1", TTOOLS_CACHE_DIR="/nowhere/ttools")
    )
    assert checks_found["environment"]["status"] == "warning"
    assert "TRITON_INTERPRET=1 (Triton's own interpreter" in checks_found["environment"]["detail"]
    assert checks_found["ttools cache"]["detail"] == "/nowhere/ttools does not exist yet"


def test_misspelt_variable(ttools: Run) -> None:
    checks_found = checks(ttools("doctor", "--json", TTOOLS_CACHEDIR="x"))
    assert "does not use TTOOLS_CACHEDIR" in checks_found["environment"]["help"]


def test_disabled_backend_names_the_reason(ttools: Run) -> None:
    check = checks(ttools("doctor", "--json", TTOOLS_BACKEND="off"))["triton driver"]
    assert check["status"] == "error"
    assert "TTOOLS_BACKEND=off" in check["detail"] + str(check["help"])


@pytest.mark.slow
def test_the_self_test_describes_what_it_ran(ttools: Run) -> None:
    result = ttools("doctor", "--self-test", "1")
    assert "random kernel" in result.stdout, result.stderr
    assert result.returncode == (0 if "no differences from NumPy" in result.stdout else 1)


def test_seconds_without_a_self_test_are_refused(ttools: Run) -> None:
    result = ttools("doctor", "10")
    assert result.returncode == 2
    assert "--self-test" in result.stderr
