"""Tests of the object cache: hits, keys, damaged and untrusted files, size, and processes."""

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
    """Set an empty cache for each test; return the folder of its entries."""
    native_runtime()  # compile the runtime first, so that its object is in another cache
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


def test_the_second_compilation_is_a_hit(directory: Path) -> None:
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


def test_the_key_contains_everything_that_determines_the_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_parts_of_a_key_are_separated() -> None:
    assert object_key("ab", "c", opt=2) != object_key("a", "bc", opt=2)


def test_the_key_does_not_depend_on_the_order_of_facts() -> None:
    facts = Facts(readonly=frozenset([1, 9, 33, 65]))
    reordered = Facts(readonly=frozenset([65, 33, 9, 1]))
    compiled(facts=facts)
    assert compiled(facts=reordered).hit


def test_the_cache_can_be_disabled(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    recompiled = compiled()
    assert not recompiled.hit
    assert counts_right(recompiled)
    assert entry.read_bytes() == good
    assert compiled().hit


@pytest.mark.parametrize(
    ("metadata", "object_code"),
    [(b"", b""), (b"{}", b"no object"), (cache._packed(MODULE), b"")],
)
def test_a_valid_entry_with_other_contents_is_compiled_again(
    directory: Path, metadata: bytes, object_code: bytes
) -> None:
    compiled()
    (entry,) = entries(directory)
    store = ObjectStore(directory)
    store.write(entry.stem, metadata, object_code)
    assert not compiled().hit
    assert compiled().hit


def test_a_directory_that_others_can_write_is_not_used(directory: Path) -> None:
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


def test_a_directory_of_another_user_is_not_used(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    refusal = ObjectStore(directory).refusal
    assert refusal is not None
    assert "belongs to another user" in refusal


def test_an_entry_that_others_can_write_is_not_used(directory: Path) -> None:
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


def test_a_file_in_place_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TTOOLS_CACHE_DIR", str(tmp_path / "file"))
    assert counts_right(compiled())
    store = object_store()
    assert store is not None
    assert "cannot be used" in (store.refusal or "")


def test_the_least_recently_used_entries_are_removed(directory: Path) -> None:
    store = ObjectStore(directory, limit_bytes=10_000)
    for n in range(9):
        store.write(f"key{n}", b"", bytes(1000))
        os.utime(directory / f"key{n}.ttobj", (n, n))
    assert store.read("key0") is not None  # reading makes the entry the youngest
    for n in range(9, 12):
        store.write(f"key{n}", b"", bytes(1000))
    store.shrink()
    kept = {path.stem for path in entries(directory)}
    assert store.size()[1] <= 10_000
    assert "key0" in kept
    assert "key11" in kept
    assert "key1" not in kept


def test_the_size_is_measured_only_occasionally(directory: Path) -> None:
    ObjectStore(directory).write("first", b"", bytes(1000))
    ObjectStore(directory, limit_bytes=1500).write("second", b"", bytes(1000))
    assert len(entries(directory)) == 2, "the size was measured a moment ago"
    long_ago = time.time() - 7200
    os.utime(directory / "measured", (long_ago, long_ago))
    ObjectStore(directory, limit_bytes=1500).write("third", b"", bytes(1000))
    assert len(entries(directory)) == 1


def test_files_of_crashed_writers_are_removed(directory: Path) -> None:
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


def test_unpacking_reverses_packing() -> None:
    unpacked = cache._unpacked(cache._packed(MODULE))
    assert unpacked == MODULE
    assert unpacked.sites[0].location == LOCATION
    assert jit.load(jit.compile_ir(unpacked.llvm_ir)).address


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
def test_a_valid_entry_with_invalid_data_is_replaced(body: bytes, directory: Path) -> None:
    assert not compiled().hit
    (path,) = (entry for entry in entries(directory) if b"ttools_run" in entry.read_bytes())
    magic, _, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(magic + b"\n" + hashlib.sha256(body).digest() + body)
    assert not compiled().hit
    assert compiled().hit
