"""A store of tunings that release 0.1 wrote can be opened, and has its winner."""

from __future__ import annotations

import shutil
from pathlib import Path

from ttools.tuner.store.store import TuningStore

RELEASE = Path(__file__).with_name("release_0.1.sqlite")


def test_its_entries_are_read(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(RELEASE, path)  # SQLite may write to the folder during reading
    store = TuningStore(path, create=False)
    (entry,) = store.entries()
    store.close()
    assert entry.problem.kernel == "shift"
    assert entry.problem.key == '{"n": 8, "dtypes": ["bfloat16", "float32"]}'
    assert entry.location == ("shift.py", 2)
    assert entry.complete
    assert [trial.values["BLOCK"] for trial in entry.trials] == [4, 8]
    assert entry.winner == entry.trials[1].key
    assert len(entry.final[entry.winner]) == 9
    assert [trial.projection for trial in entry.trials] == [None, None]


def test_its_store_can_be_read_where_it_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(RELEASE, path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        store = TuningStore(path, create=False)
        (entry,) = store.entries()
        store.close()
    finally:
        tmp_path.chmod(0o755)
    assert len(entry.trials) == 2
