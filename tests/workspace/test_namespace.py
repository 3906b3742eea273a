"""The members share one PEP 420 namespace, and importing them is fast and has no side effects."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMBERS = (
    "core",
    "ir",
    "interpreter",
    "watch",
    "sanitizer",
    "prove",
    "profiler",
    "tuner",
    "fuzz",
    "verifier",
    "cli",
)
HEAVY = ("torch", "numpy", "llvmlite", "pandas")


def run_python(code: str, first_on_path: Path | None = None) -> tuple[str, str]:
    """Run code in a new interpreter and return its stdout and stderr."""
    environment = {**os.environ, **({"PYTHONPATH": str(first_on_path)} if first_on_path else {})}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip(), result.stderr.strip()


def test_namespace_has_no_file_and_spans_all_members() -> None:
    namespace = importlib.import_module("ttools")
    assert namespace.__file__ is None
    assert not list(ROOT.glob("packages/*/src/ttools/__init__.py"))
    parts = {Path(part).resolve() for part in namespace.__path__}
    assert {ROOT / "packages" / member / "src" / "ttools" for member in MEMBERS} <= parts


@pytest.mark.parametrize("member", MEMBERS)
def test_member_imports_alone_and_is_typed(member: str) -> None:
    loaded, _ = run_python(
        f"import sys, ttools.{member}; print(*(m for m in {HEAVY} if m in sys.modules))"
    )
    assert loaded == "", f"importing ttools.{member} pulls in {loaded}"
    assert (ROOT / "packages" / member / "src" / "ttools" / member / "py.typed").is_file()


def test_backend_entry_point_is_named_cpu() -> None:
    backends = {point.name: point.value for point in entry_points(group="triton.backends")}
    assert backends["cpu"] == "ttools_triton"


def test_import_triton_stays_light_with_the_plugin_installed() -> None:
    loaded, _ = run_python(f"import sys, triton; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded == "", f"`import triton` pulls in {loaded}"


def test_hidden_namespace_does_not_break_import_triton(tmp_path: Path) -> None:
    (tmp_path / "ttools.py").write_text("")
    driver_is_off, errors = run_python(
        "from triton.backends import backends; print(not backends['cpu'].driver.is_active())",
        first_on_path=tmp_path,
    )
    assert driver_is_off == "True"
    assert len(errors.splitlines()) == 1
    assert str(tmp_path / "ttools.py") in errors
    assert "uninstall or rename" in errors
