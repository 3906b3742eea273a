"""Tests of Triton's initialisations, which are done in advance or taken from another process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from triton import compiler
from triton.backends.nvidia import driver
from triton.runtime import cache

from ttools.core import triton_versions
from ttools.core.triton_versions import warm_up


def test_a_hash_is_taken_from_a_process_with_the_same_triton_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = cache.triton_key
    monkeypatch.setattr(cache, "triton_key", own)
    file = triton_versions.triton_file()
    for key, path in (("", file), ("theirs", "elsewhere/triton/__init__.py")):
        triton_versions.use_hash(key, path)
        assert cache.triton_key is own
    triton_versions.use_hash("theirs", file)
    assert cache.triton_key() == triton_versions.hash_triton() == "theirs"


def test_another_process_has_the_same_hash() -> None:
    code = (
        "from ttools.core import triton_versions as t\n"
        "print(t.hash_triton(), t.triton_file(), sep='\\n')"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.splitlines() == [
        triton_versions.hash_triton(),
        triton_versions.triton_file(),
    ]


def test_a_launcher_is_built_once_per_signature_during_the_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[Any] = []

    class Launcher:
        def __init__(self, source: Any, metadata: Any) -> None:
            assert metadata.tensordesc_meta is None
            assert metadata.global_scratch_size == 0
            built.append([*source.signature.values()])

    monkeypatch.setattr(driver, "CudaLauncher", Launcher)
    monkeypatch.setattr(compiler, "compile", lambda source, **options: (source, options))
    triton_versions.build_launchers()
    plain, other = ({"x": "*fp32", "n": kind} for kind in ("i32", "i64"))
    descriptor = {"x": "tensordesc<fp32[16, 16]>"}
    for signature in (plain, plain, descriptor, other):
        source = SimpleNamespace(signature=signature)
        assert compiler.compile(source, target=1) == (source, {"target": 1})
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.name.startswith("Thread"):
            thread.join(1)
    assert sorted(built) == [["*fp32", "i32"], ["*fp32", "i64"]]


def test_modules_are_built_by_one_process_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    busy: list[str] = []
    most: dict[str, int] = {}

    def build(*, src: str, name: str) -> str:
        busy.append(name)
        most[name] = max(most.get(name, 0), busy.count(name))
        time.sleep(0.05)
        busy.remove(name)
        return src

    monkeypatch.setattr(driver, "compile_module_from_src", build, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    triton_versions.build_one_at_a_time()
    results: list[str] = []

    def ask(source: str) -> None:
        results.append(driver.compile_module_from_src(source, "m"))

    threads = [threading.Thread(target=ask, args=(source,)) for source in "012"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["0", "1", "2"]
    assert most == {"m": 1}


def test_builds_work_without_a_writable_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "compile_module_from_src", lambda *, src, name: src, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "missing"))
    triton_versions.build_one_at_a_time()
    assert driver.compile_module_from_src("source", "m") == "source"


def test_missing_modules_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.driver", None)
    triton_versions.build_driver_module()
    warm_up._build_launcher(SimpleNamespace(signature={}))
    monkeypatch.setitem(sys.modules, "triton.experimental.gluon.nvidia.hopper", None)
    triton_versions.import_argument_types()
