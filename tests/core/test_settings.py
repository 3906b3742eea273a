"""Tests of `[tool.ttools]` in pyproject.toml: the file, its values, errors and precedence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.settings import read_settings


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_the_nearest_file_with_the_table(tmp_path: Path) -> None:
    write(
        tmp_path, "[tool.ttools]\nthreads = 3\ncache-dir = 'kept'\n[tool.ttools.tune]\ntrials = 5\n"
    )
    inner = write(tmp_path / "a" / "b", "[tool.other]\nttools = 1\n")
    settings = read_settings(inner)
    assert settings is not None
    assert settings.file == tmp_path / "pyproject.toml"
    assert settings.variables == {
        "TTOOLS_THREADS": "3",
        "TTOOLS_CACHE_DIR": str(tmp_path / "kept"),
    }
    assert settings.commands == {"tune": {"trials": 5}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.ttools]\nthread = 3", "no setting `thread`; did you mean `threads`?"),
        ("[tool.ttools]\nthreads = [3]", "`threads` must be a string"),
        ("[tool]\nttools = 3", "must be a table"),
        ("[tool.ttools\n", "pyproject.toml: "),
    ],
)
def test_invalid_settings_are_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings(write(tmp_path, text))
    assert message in refused.value.message
    assert str(tmp_path) in refused.value.message


def test_files_without_the_table_are_not_parsed(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path / "x", "[broken"))
    assert settings is None or tmp_path not in settings.file.parents


def test_environment_variables_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_THREADS", "7")
    monkeypatch.setenv("TTOOLS_DOT", "")
    settings = read_settings(write(tmp_path, "[tool.ttools]\nthreads = 3\ndot = 'exact'\n"))
    assert settings is not None
    settings.take_effect()
    assert os.environ["TTOOLS_THREADS"] == "7"
    assert os.environ["TTOOLS_DOT"] == "exact"
