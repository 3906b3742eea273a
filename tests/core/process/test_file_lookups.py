"""The names of files that a program looks for are recorded, whichever function it uses."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from ttools.core.process.file_lookups import file_lookups


def test_names_are_recorded_in_order(tmp_path: Path) -> None:
    present = tmp_path / "b.json"
    present.write_text("{}")
    before = os.stat, open
    with file_lookups(lambda name: name.endswith(".json")) as names:
        assert not os.path.exists(tmp_path / "a.json")  # noqa: PTH110 - one of the functions
        assert os.path.isfile(str(present))  # noqa: PTH113
        with open(present) as file:  # noqa: PTH123
            assert json.load(file) == {}
        with suppress(OSError):
            Path("c.json").read_text()
        os.stat(b"d.json".decode() if Path("d.json").exists() else tmp_path)  # noqa: PTH116
        os.path.exists("other.txt")  # noqa: PTH110
        os.fstat(0)
        os.stat(0)
    assert list(names) == ["a.json", "b.json", "c.json", "d.json"]
    assert (os.stat, open) == before
    os.path.exists("e.json")  # noqa: PTH110
    assert "e.json" not in names
