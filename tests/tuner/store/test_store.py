"""The store returns what was written to it, and refuses invalid files with a reason."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.tuner.measure.reproducible import BitClasses
from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import config_key
from ttools.tuner.store.lock import lock_of, merged, read_lock, write_lock
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import StoreError, TuningEntry, TuningStore

LOCATION = ("kernel.py", 3)


def problem(**changes: str) -> Problem:
    fields = {
        "kernel": "add_kernel",
        "source": "0123",
        "key": '{"n": 5, "dtypes": ["float32"]}',
        "device": "cpu: this one, 2 threads",
        "versions": "triton 3",
    }
    return Problem(**{**fields, **changes})


def trial(block: int, *samples: float, **fields) -> Trial:
    return Trial(values={"BLOCK": block, "num_warps": 4}, status="ok", samples=samples, **fields)


def test_written_tunings_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    trials = [
        trial(
            *(64, 1.0, 2.0),
            reference="r",
            checks="sanitized",
            predicted=0.5,
            projection={"low": 0.4, "high": 0.7, "outside": ["spills registers"]},
            bit_equal=False,
            resources={"registers": 32, "spilled": 0, "shared": 0, "occupancy": 0.5},
        ),
        Trial(values={"BLOCK": 3}, status="failed", reason="no power of 2"),
    ]
    for item in trials:
        store.add(problem(), item, LOCATION)
    store.decide(problem(), trials[0].key, {trials[0].key: [1.5]}, True, LOCATION)
    store.close()
    store = TuningStore(path)
    assert store.entries() == [
        TuningEntry(
            problem=problem(),
            trials=trials,
            winner=trials[0].key,
            final={trials[0].key: [1.5]},
            complete=True,
            location=LOCATION,
        )
    ]
    assert store.entry(problem(source="changed")) == TuningEntry(problem=problem(source="changed"))


def test_a_configuration_has_one_trial_whatever_the_order_of_its_parameters(tmp_path: Path) -> None:
    store = TuningStore(tmp_path / "store.sqlite")
    store.add(problem(), trial(64, 1.0), LOCATION)
    turned = Trial(values={"num_warps": 4, "BLOCK": 64}, status="ok", samples=(2.0,))
    store.add(problem(), turned, LOCATION)
    entry = store.entry(problem())
    assert entry.trials == [turned]
    assert entry.earlier == (trial(64, 1.0),), "earlier measurements are kept"
    assert all(item.tried for item in (*entry.trials, *entry.earlier))


def test_programs_with_complete_tunings_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store, before = TuningStore(path), time.time()
    assert store.ended("a program") == 0
    for _ in range(2):
        store.end("a program")
    store.close()
    again = TuningStore(path)
    assert before <= again.ended("a program") <= time.time()
    assert again.ended("another") == 0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"not a database, but long enough to be looked at" * 30, "file is not a database"),
        (None, "not a store of tunings"),
    ],
)
def test_other_files_are_refused_and_not_changed(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / "other.sqlite"
    if content is None:
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE other (x)")
        base.commit()
        base.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=sentence):
        TuningStore(path)
    assert path.read_bytes() == before


def test_a_damaged_store_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    for block in range(30):
        store.add(problem(), trial(block, *(0.1,) * 200), LOCATION)
    store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * 4096 + whole[8192:])
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"cannot be used as a store.*move it away"):
        TuningStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        ("UPDATE trial SET samples = '[1,'", ""),
        (
            "UPDATE trial SET samples = '[1, \"2\"]'",
            r"`float`, got `str` - at `\$.trials\[0\].samples\[1\]",
        ),
        ("UPDATE trial SET samples = '[NaN]'", r"`\$.trials\[0\].samples\[0\]"),
        ("UPDATE trial SET samples = '[1e999]'", r"`\$.trials\[0\].samples\[0\]"),
        ("UPDATE trial SET status = 'won'", r"`\$.trials\[0\].status"),
        ("UPDATE trial SET named = '3'", r"`\$.trials\[0\].values"),
        ("UPDATE trial SET resources = '{\"shared\": 1}'", r"`\$.trials\[0\].resources"),
        ("UPDATE trial SET conditions = '{\"celsius\": true}'", r"\.conditions\[...\]"),
        ("UPDATE problem SET final = '{'", ""),
        ("UPDATE problem SET final = '{\"a\": 1}'", r"`\$.final"),
        ("UPDATE problem SET winner = X'00'", r"`\$.winner"),
        ("UPDATE problem SET line = 'three'", r"`\$.location\[1\]"),
    ],
)
def test_damage_that_is_detected_during_reading(tmp_path: Path, damage: str, where: str) -> None:
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    store.add(problem(), trial(64, 1.0), LOCATION)
    store.close()
    base = sqlite3.connect(path)
    base.execute(damage)
    base.commit()
    base.close()
    store = TuningStore(path)
    for read in (store.entries, lambda: store.entry(problem())):
        with pytest.raises(UsageError, match=f"cannot be used as a store.*{where}.*move it away"):
            read()


@pytest.mark.parametrize("table", ["problem", "trial"])
def test_missing_columns(tmp_path: Path, table: str) -> None:
    path = tmp_path / "store.sqlite"
    TuningStore(path).close()
    sound = path.read_bytes()
    with closing(sqlite3.connect(path)) as base:
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
    assert len(columns) >= 12
    damages = [(f"ALTER TABLE {table} RENAME COLUMN {name} TO other", name) for name in columns]
    for damage, name in [*damages, (f"DROP TABLE {table}", columns[0])]:
        path.write_bytes(sound)
        with closing(sqlite3.connect(path)) as base:
            base.execute(damage)
        with pytest.raises(
            UsageError, match=f"`{table}` has no column `{name}`; the file is unchanged"
        ):
            TuningStore(path)


def test_a_store_that_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # For this statement, SQLite raises the same error as for a full disk.
    monkeypatch.setattr("ttools.tuner.store.store._TABLES", "CREATE no such thing")
    with pytest.raises(UsageError, match=r"cannot create the store `.*`: .*; free space"):
        TuningStore(tmp_path / "store.sqlite")


def test_reading_an_empty_file_leaves_it_empty(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.touch()
    with pytest.raises(UsageError, match="is empty, so it is not a store"):
        TuningStore(path, create=False)
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (8, r"newer ttools \(schema 8, this one supports 7\)"),
        (3, r"cannot be used as a store: its schema 3 is not supported; .* move it away"),
    ],
)
def test_a_store_of_another_schema_is_refused_and_not_changed(
    tmp_path: Path, schema: int, sentence: str
) -> None:
    path = tmp_path / "store.sqlite"
    TuningStore(path).close()
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA user_version = {schema}")
    base.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match=sentence):
        TuningStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("schema", "columns"), [(4, ("projection", "bit_equal")), (5, ("bit_equal",)), (6, ())]
)
def test_stores_of_earlier_schemas_are_converted(
    tmp_path: Path, schema: int, columns: tuple[str, ...]
) -> None:
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    store.add(problem(), trial(64, 1.0), LOCATION)
    store.close()
    with closing(sqlite3.connect(path)) as base:
        for column in columns:
            base.execute(f"ALTER TABLE trial DROP COLUMN {column}")
        base.execute("DROP TABLE bit_class")
        base.execute(f"PRAGMA user_version = {schema}")
        base.commit()
    store = TuningStore(path)
    store.add(problem(), replace(trial(128, 1.0), bit_equal=True), LOCATION)
    same_as = {"a": "a", "b": "a", "c": "c"}
    classes = BitClasses(target="sm_90", same_as=same_as, unknown={"c": "a scan"})
    store.classify(problem(), classes, LOCATION)
    store.close()
    stored = TuningStore(path).entry(problem())
    read = [(one.values["BLOCK"], one.bit_equal) for one in stored.trials]
    assert read == [(64, None), (128, True)]
    assert stored.bit_classes == classes


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    store.add(problem(), trial(64, 1.0), LOCATION)
    # With this limit, SQLite raises the error of a full disk.
    store._base.execute(
        f"PRAGMA max_page_count = {store._base.execute('PRAGMA page_count').fetchone()[0]}"
    )
    with pytest.raises(StoreError, match="full; its earlier contents are unchanged"):
        fill(store)
    store.close()
    assert TuningStore(path).entry(problem()).trials[0] == trial(64, 1.0)


def fill(store: TuningStore) -> None:
    for block in range(1000):
        store.add(problem(), trial(1000 + block, *(0.1,) * 50), LOCATION)


def test_only_existing_stores_can_be_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        TuningStore(tmp_path / "none.sqlite", create=False)
    assert not (tmp_path / "none.sqlite").exists()
    with pytest.raises(UsageError, match="there is no folder"):
        TuningStore(tmp_path / "none" / "store.sqlite")


# ---- the lock file
def entry(block: int, **changes: str) -> TuningEntry:
    won = trial(block, 1.0)
    return TuningEntry(problem=problem(**changes), trials=[won, trial(7, 2.0)], winner=won.key)


def test_a_lock_file_has_the_winners(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    write_lock(
        lock_of([entry(64), entry(32, kernel="other"), TuningEntry(problem=problem())]), path
    )
    lock = read_lock(path)
    assert lock.find(problem()) == {"BLOCK": 64, "num_warps": 4}
    assert config_key(lock.find(problem(kernel="other"))) == trial(32).key
    assert [entry_path.name for entry_path in tmp_path.iterdir()] == ["lock.json"]
    first = path.read_text()
    write_lock(lock_of([entry(32, kernel="other"), entry(64)]), path)
    assert path.read_text() == first


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kernel": "mul_kernel"}, "no winner for this kernel"),
        ({"source": "4567"}, "source has changed"),
        ({"key": '{"n": 6, "dtypes": []}'}, "no winner for this key"),
        ({"device": "cpu: another"}, "winners for cpu: this one, 2 threads, triton 3, not for"),
    ],
)
def test_missing_parts_of_a_lock_file_are_reported(changes: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        lock_of([entry(64)]).find(problem(**changes))


def test_a_lock_file_has_the_permissions_of_new_files(tmp_path: Path) -> None:
    path, usual = tmp_path / "lock.json", tmp_path / "usual"
    usual.touch()
    write_lock(lock_of([entry(64)]), path)
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    write_lock(lock_of([entry(64)]), path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_winners_replace_those_of_the_same_kernel_key_and_device() -> None:
    old = lock_of([entry(64), entry(32, kernel="other")])
    both = merged(old, lock_of([entry(128, source="changed")]))
    assert set(both.winners) == {problem(kernel="other"), problem(source="changed")}


PLAIN = {**dict.fromkeys(("kernel", "source", "device", "versions"), "x"), "key": '{"dtypes": []}'}


def locked(winner: object) -> str:
    return json.dumps({"schema": "ttools.tuned/1", "winners": [winner]})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not a lock file"),
        ('{"schema": "ttools.tuned/9"}', "it was written by another version of ttools"),
        (locked({}), r"damaged lock file: .* field `problem` - at `\$.winners\[0\]`"),
        (locked({"problem": PLAIN, "config": 3}), r"`int` - at `\$.winners\[0\].config`"),
        (
            locked({"problem": {**PLAIN, "key": "["}, "config": {}}),
            r"- at `\$.winners\[0\].problem`",
        ),
        (locked({"problem": {**PLAIN, "key": "{}"}, "config": {}}), r"required field `dtypes`"),
    ],
)
def test_other_files_are_no_lock_files(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_lock(path)
