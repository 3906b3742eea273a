"""The object cache: hits, keys, damage, strangers, size, several processes at once."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from handmade_kernels import COUNT, HERE, Counters, module

from ttools.core.errors import UsageError
from ttools.interpreter.abi.module import EmitOptions, Facts, Site
from ttools.interpreter.native import jit
from ttools.interpreter.native.object_store import ObjectStore, object_store
from ttools.interpreter.runtime import cache
from ttools.interpreter.runtime.cache import Compilation, get_or_compile, object_key
from ttools.interpreter.runtime.launch import run
from ttools.interpreter.runtime.support.native_runtime import native_runtime

LOCATION = replace(HERE, callers=(HERE, replace(HERE, line=1, callers=(HERE,))))
MODULE = module(COUNT, 1, [Site(1, LOCATION, "p", (("f32", (2, 3), False, True),))])


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test; returns where its entries are."""
    native_runtime()  # whose object is kept in another one
    monkeypatch.setenv("TTOOLS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TTOOLS_CACHE", raising=False)
    return tmp_path / "cache" / "objects"


def compiled(
    ttir: str = "ttir",
    facts: Facts | None = None,
    options: EmitOptions | None = None,
    opt: int | None = None,
) -> Compilation:
    return get_or_compile(ttir, facts or Facts(), options or EmitOptions(), lambda: MODULE, opt=opt)


def counts_right(compilation: Compilation) -> bool:
    counters = Counters(30)
    run(compilation.kernel, [counters.address], (30,))
    return counters.values() == [1] * 30


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.ttobj"))


def test_the_second_time_it_comes_from_disk(directory: Path) -> None:
    first = compiled()
    assert not first.hit
    assert {"emit", "parse", "optimise", "codegen", "load", "store"} <= set(first.phases)
    (entry,) = entries(directory)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    second = compiled()
    assert second.hit
    assert set(second.phases) == {"lookup", "load"}
    assert second.kernel.emitted == first.kernel.emitted == MODULE
    assert counts_right(first)
    assert counts_right(second)


def test_whatever_decides_the_code_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    assert not compiled(ttir="other").hit
    assert not compiled(facts=Facts(readonly=frozenset({0}))).hit
    assert not compiled(options=EmitOptions(debug=True)).hit
    assert not compiled(opt=3).hit
    monkeypatch.setenv("TTOOLS_CPU", "x86-64")
    assert not compiled().hit
    monkeypatch.delenv("TTOOLS_CPU")
    monkeypatch.setattr(cache, "_versions", lambda: ("another ttools",))
    assert not compiled().hit
    monkeypatch.undo()


def test_parts_of_a_key_do_not_run_together() -> None:
    assert object_key("ab", "c", opt=2) != object_key("a", "bc", opt=2)


def test_facts_with_the_same_members_have_one_key() -> None:
    one = Facts(readonly=frozenset([1, 9, 33, 65]))
    other = Facts(readonly=frozenset([65, 33, 9, 1]))
    compiled(facts=one)
    assert compiled(facts=other).hit


def test_it_can_be_switched_off(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    assert object_store() is None
    assert not compiled().hit
    assert not compiled().hit
    assert not directory.exists()


def test_levels_of_optimisation_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TTOOLS_OPT")
    compiled()
    assert compiled(opt=2).hit
    monkeypatch.setenv("TTOOLS_OPT", "1")
    compiled()
    assert compiled(opt=1).hit
    monkeypatch.setenv("TTOOLS_OPT", "fast")
    with pytest.raises(UsageError, match="TTOOLS_OPT=fast"):
        compiled()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:300] + bytes([data[300] ^ 1]) + data[301:],
        lambda data: b"another file format",
    ],
)
def test_a_damaged_entry_is_compiled_again(directory: Path, damage: object) -> None:
    compiled()
    (entry,) = entries(directory)
    good = entry.read_bytes()
    entry.write_bytes(damage(good))  # type: ignore[operator]
    again = compiled()
    assert not again.hit
    assert counts_right(again)
    assert entry.read_bytes() == good
    assert compiled().hit


@pytest.mark.parametrize(
    ("metadata", "object_code"),
    [(b"", b""), (b"{}", b"no object"), (cache._packed(MODULE), b"")],
)
def test_a_whole_entry_of_something_else_is_compiled_again(
    directory: Path, metadata: bytes, object_code: bytes
) -> None:
    compiled()
    (entry,) = entries(directory)
    store = ObjectStore(directory)
    store.write(entry.stem, metadata, object_code)
    assert not compiled().hit
    assert compiled().hit


def test_a_directory_that_others_can_write_is_refused(directory: Path) -> None:
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    store = ObjectStore(directory)
    assert store.refusal is not None
    assert "can be written by other users" in store.refusal
    store.write("key", b"", b"object")
    assert store.read("key") is None
    assert counts_right(compiled())
    assert not compiled().hit
    assert entries(directory) == []


def test_a_directory_of_another_user_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    refusal = ObjectStore(directory).refusal
    assert refusal is not None
    assert "belongs to another user" in refusal


def test_an_entry_that_others_can_write_is_not_run(directory: Path) -> None:
    compiled()
    (entry,) = entries(directory)
    entry.chmod(0o666)
    assert not compiled().hit
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_links_are_not_followed(directory: Path, tmp_path: Path) -> None:
    compiled()
    (entry,) = entries(directory)
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)
    assert not compiled().hit
    assert not entry.is_symlink()


def test_a_place_that_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TTOOLS_CACHE_DIR", str(tmp_path / "file"))
    assert counts_right(compiled())
    store = object_store()
    assert store is not None
    assert "cannot be used" in (store.refusal or "")


def test_the_least_recently_used_go_first(directory: Path) -> None:
    store = ObjectStore(directory, limit_bytes=10_000)
    for n in range(9):
        store.write(f"key{n}", b"", bytes(1000))
        os.utime(directory / f"key{n}.ttobj", (n, n))
    assert store.read("key0") is not None  # a use makes it the youngest
    for n in range(9, 12):
        store.write(f"key{n}", b"", bytes(1000))
    store.shrink()
    kept = {path.stem for path in entries(directory)}
    assert store.size()[1] <= 10_000
    assert "key0" in kept
    assert "key11" in kept
    assert "key1" not in kept


def test_short_processes_measure_the_directory_now_and_then(directory: Path) -> None:
    ObjectStore(directory).write("first", b"", bytes(1000))
    ObjectStore(directory, limit_bytes=1500).write("second", b"", bytes(1000))
    assert len(entries(directory)) == 2, "somebody measured a moment ago"
    long_ago = time.time() - 7200
    os.utime(directory / "measured", (long_ago, long_ago))
    ObjectStore(directory, limit_bytes=1500).write("third", b"", bytes(1000))
    assert len(entries(directory)) == 1


def test_what_crashed_writers_left_is_removed(directory: Path) -> None:
    store = ObjectStore(directory)
    old, young = directory / "old.tmp", directory / "young.tmp"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.shrink()
    assert not old.exists()
    assert young.exists()


def test_several_processes_use_one_directory(directory: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_object_cache import compiled, counts_right
for round in range(6):
    for n in range(4):
        assert counts_right(compiled(ttir=str(n), opt=1))
"""
    running = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    assert len(entries(directory)) == 5  # four kernels and the runtime itself
    assert list(directory.glob("*.tmp")) == []


def test_the_stored_form_keeps_everything() -> None:
    again = cache._unpacked(cache._packed(MODULE))
    assert again == MODULE
    assert again.sites[0].location == LOCATION
    assert jit.load(jit.compile_ir(again.llvm_ir)).address


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode({"metadata": b""}),
        msgspec.msgpack.encode({"metadata": 1, "object_code": b""}),
        msgspec.msgpack.encode({"metadata": b"", "object_code": b""}) + b"more",
    ],
)
def test_a_whole_entry_that_is_not_ours_is_replaced(body: bytes, directory: Path) -> None:
    assert not compiled().hit
    (path,) = (each for each in entries(directory) if b"ttools_run" in each.read_bytes())
    magic, _, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(magic + b"\n" + hashlib.sha256(body).digest() + body)
    assert not compiled().hit
    assert compiled().hit
