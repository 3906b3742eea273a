"""`[tool.ttools]`: which file, which values, what is refused, and that the environment wins."""

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
    found = read_settings(inner)
    assert found is not None
    assert found.file == tmp_path / "pyproject.toml"
    assert found.variables == {
        "TTOOLS_THREADS": "3",
        "TTOOLS_CACHE_DIR": str(tmp_path / "kept"),
    }
    assert found.commands == {"tune": {"trials": 5}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.ttools]\nthread = 3", "no setting `thread`; did you mean `threads`?"),
        ("[tool.ttools]\nthreads = [3]", "`threads` must be a text"),
        ("[tool]\nttools = 3", "must be a table"),
        ("[tool.ttools\n", "pyproject.toml: "),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings(write(tmp_path, text))
    assert said in refused.value.message
    assert str(tmp_path) in refused.value.message


def test_files_that_do_not_name_us_are_not_read(tmp_path: Path) -> None:
    found = read_settings(write(tmp_path / "x", "[broken"))
    assert found is None or tmp_path not in found.file.parents


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_THREADS", "7")
    monkeypatch.setenv("TTOOLS_DOT", "")
    found = read_settings(write(tmp_path, "[tool.ttools]\nthreads = 3\ndot = 'exact'\n"))
    assert found is not None
    found.take_effect()
    assert os.environ["TTOOLS_THREADS"] == "7"
    assert os.environ["TTOOLS_DOT"] == "exact"
