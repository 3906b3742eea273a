"""Tests that files of the user that hide installed packages are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttools.core.process.hidden_modules import hiding_advice, hiding_files

pytest.importorskip("torch")  # a file can hide a package only if it is installed


@pytest.mark.parametrize("name", ["torch", "triton", "numpy", "json", "random", "ttools"])
def test_a_module_that_hides_a_package(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").touch()
    (tmp_path / "kernels_of_this_test.py").touch()
    assert hiding_files(tmp_path) == {name: tmp_path / f"{name}.py"}
    advice = hiding_advice(tmp_path)
    assert advice is not None
    assert f"`{tmp_path / name}.py` hides `{name}`: rename the file" in advice


def test_a_package_that_hides_a_package(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    assert hiding_files(tmp_path) == {}  # the installed package comes first
    (tmp_path / "torch" / "__init__.py").touch()
    assert hiding_files(tmp_path) == {"torch": tmp_path / "torch" / "__init__.py"}


@pytest.mark.parametrize(
    "name", ["torch.txt", "torch.pyi", "my-torch.py", "unknown_name.py", "sys.py", "zipimport.py"]
)
def test_files_that_hide_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert hiding_advice(tmp_path) is None


def test_the_folder_can_be_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numpy.py", "torch.py", "kernels_of_this_test.py"):
        (tmp_path / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert list(hiding_files(tmp_path)) == ["numpy", "torch"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert list(hiding_files(tmp_path)) == ["numpy", "torch"]
    assert hiding_files(tmp_path / "missing") == {}


def test_the_number_of_named_files_is_limited(tmp_path: Path) -> None:
    for name in ("json", "numpy", "random", "torch", "triton"):
        (tmp_path / f"{name}.py").touch()
    advice = hiding_advice(tmp_path)
    assert advice is not None
    assert "`, 2 more files hide modules: rename the files" in advice


def test_advice_concerns_the_module_of_the_error(tmp_path: Path) -> None:
    for name in ("json", "torch"):
        (tmp_path / f"{name}.py").touch()
    missing = ModuleNotFoundError("No module named 'torch._C'", name="torch._C")
    lacking = AttributeError("no attribute", name="dumps", obj=json)
    for error, name in ((missing, "torch"), (lacking, "json")):
        assert (
            hiding_advice(tmp_path, error)
            == f"`{tmp_path / name}.py` hides `{name}`: rename the file"
        )
    others = (ImportError("x", name="absent"), AttributeError("x", obj=3), ValueError("torch"))
    assert [hiding_advice(tmp_path, error) for error in others] == [None, None, None]
