"""Built distributions contain all sources, and work in an environment without the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="hatchling is not installed")

from tools.built_packages import detect_other_distribution, install, use
from tools.release import ROOT, build, members, version

SOURCES = ROOT / "packages"


def held(wheel: Path) -> set[str]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as packed:
        return {name for name in packed.namelist() if ".dist-info/" not in name}


def sources(member: str) -> set[str]:
    """Return the source files of a member that git tracks."""
    listed = subprocess.check_output(["git", "ls-files", "src"], cwd=SOURCES / member, text=True)
    return {name.removeprefix("src/") for name in listed.split()}


@pytest.mark.parametrize("member", ["cli", "profiler"])
def test_a_wheel_made_from_its_sdist_holds_all_sources(member: str, tmp_path: Path) -> None:
    _, wheel = build(SOURCES / member, tmp_path)
    assert held(wheel) == sources(member)
    assert f"ttools/{member}/py.typed" in held(wheel)
    assert "ttools/__init__.py" not in held(wheel)
    with zipfile.ZipFile(wheel) as packed:
        inside = {name.partition(".dist-info/")[2]: name for name in packed.namelist()}
        metadata = packed.read(inside["METADATA"]).decode()
        assert inside["licenses/LICENSE"]
    assert f"Version: {version()}\n" in metadata
    assert "License-Expression: MIT\n" in metadata


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    for member in members():
        build(member, folder)
    return folder


@pytest.mark.slow
def test_all_members_build(built: Path) -> None:
    for member in members():
        stem = f"{member.name if '-' in member.name else f'ttools-{member.name}'}".replace("-", "_")
        (wheel,) = built.glob(f"{stem}-*.whl")
        assert (built / f"{stem}-{version()}.tar.gz").is_file()
        assert held(wheel) == (sources(member.name) if (member / "src").is_dir() else set())


@pytest.mark.slow
def test_built_files_work_without_the_checkout(built: Path, tmp_path: Path) -> None:
    # Other packages come from this environment, by a path entry. Its links to the checkout are in
    # files that only the start of Python reads, and are not inherited.
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install(python, built, offline=True)
    assert use(python, tmp_path / "used") == []
    assert detect_other_distribution(python, tmp_path / "used") == []
