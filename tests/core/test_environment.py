"""Tests of the checks of `ttools doctor`, and of the environment variables of ttools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttools.core import configuration, environment
from ttools.core.environment import Result, examine
from ttools.core.errors import UsageError


def result_of(name: str) -> Result:
    (result,) = examine([(name, dict(environment.CHECKS)[name])])
    return result


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Act as if exactly these distributions were installed."""
    monkeypatch.setattr(
        environment, "installed_version", lambda name: versions.get(name.replace("-", "_"))
    )


def test_an_exception_in_a_check_becomes_a_result() -> None:
    def fails() -> environment.Finding:
        raise OSError("lib.so: no such file")

    expected = Result(name="x", status="error", detail="OSError: lib.so: no such file")
    assert examine([("x", fails)]) == [expected]


def test_every_check_has_its_own_name() -> None:
    names = [name for name, _ in environment.CHECKS]
    assert len(names) == len(set(names))


def test_the_wrong_hatchet(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, hatchet="1.4", llnl_hatchet="2026.2")
    result = result_of("proton viewer")
    assert result.status == "error"
    assert "not the project" in result.detail
    assert "pip uninstall hatchet" in str(result.help)
    installed(monkeypatch)
    assert result_of("proton viewer").status == "info"


def test_the_wrong_ttools(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ttools="0.1")
    result = result_of("ttools namespace")
    assert (result.status, result.help) == ("warning", "pip uninstall ttools")


def test_distributions_of_different_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ttools_core="0.1.0", ttools_cli="0.2.0")
    result = result_of("ttools")
    assert (result.status, result.detail) == ("warning", "core 0.1.0, cli 0.2.0")


def test_cache_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_CACHE_DIR", str(tmp_path))
    (tmp_path / "object.o").write_bytes(bytes(1024))
    assert result_of("ttools cache").detail == f"{tmp_path}: 1 files, 0.0 MiB"
    monkeypatch.setattr("os.getuid", lambda: -5)
    result = result_of("ttools cache")
    assert result.status == "warning"
    assert "another user" in result.detail


@pytest.mark.parametrize(
    ("devices", "visible", "torch", "expected"),
    [
        (["nvidia0"], None, "2.13.0", True),
        (["nvidia0"], "0", "2.13.0+cu128", True),
        (["nvidia0"], "", "2.13.0", False),
        (["nvidia0"], "-1", "2.13.0", False),
        (["nvidia0"], None, "2.13.0+cpu", False),
        (["nvidiactl"], None, "2.13.0", False),
        ([], None, "2.13.0", False),
        (["kfd"], None, "2.13.0+rocm7", True),
    ],
)
def test_gpu_usable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    devices: list[str],
    visible: str | None,
    torch: str,
    expected: bool,
) -> None:
    for name in devices:
        (tmp_path / name).touch()
    monkeypatch.setattr(environment, "_DEV", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    installed(monkeypatch, torch=torch)
    assert environment.gpu_usable() is expected


def test_values_are_read_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_BACKEND", " OFF ")
    assert configuration.read("TTOOLS_BACKEND") == "off"
    monkeypatch.setenv("TTOOLS_BACKEND", "")
    assert configuration.read("TTOOLS_BACKEND") is None
    monkeypatch.setenv("TTOOLS_BACKEND", "of")
    with pytest.raises(UsageError, match="TTOOLS_BACKEND is `of`, but must be `off` or `auto`"):
        configuration.read("TTOOLS_BACKEND")


def test_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_CACHE_DIR", "~/here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert configuration.cache_directory() == tmp_path / "here"
    monkeypatch.delenv("TTOOLS_CACHE_DIR")
    assert configuration.cache_directory().name == "ttools"


def test_unknown_variables() -> None:
    assert configuration.is_unknown("TTOOLS_CACHEDIR")
    assert not configuration.is_unknown("TTOOLS_CACHE_DIR")
    assert not configuration.is_unknown("TRITON_SOMETHING_NEW")


def test_every_variable_in_the_sources_is_documented() -> None:
    packages = Path(__file__).parents[2] / "packages"
    read = {
        name
        for file in packages.glob("*/src/**/*.py")
        for name in re.findall(r"\bTTOOLS_[A-Z]+(?:_[A-Z]+)*\b", file.read_text())
    }
    assert {name for name in read if configuration.is_unknown(name)} == set()
