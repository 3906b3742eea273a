"""Tests that caches distinguish two files with the same kernel, so that locations are correct."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import triton

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import compile_for
from ttools.core.gpus.targets import read_target
from ttools.core.patches import Patches
from ttools.core.triton_versions import keep_files_apart

HELPER = """\
import triton
import triton.language as tl


@triton.jit
def inner(x):
    return tl.sin(x) * 2
"""
KERNEL = """\
import triton
import triton.language as tl

from helper import inner


@triton.jit
def plain(x_ptr, f: tl.constexpr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


@triton.jit
def calling(x_ptr, f: tl.constexpr):
    tl.store(x_ptr, inner(tl.load(x_ptr)))


@triton.jit
def given(x_ptr, f: tl.constexpr):
    tl.store(x_ptr, f(tl.load(x_ptr)))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load_module(path: Path, name: str) -> Any:
    """Load a file as a module with this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, *, own_helper: bool = True) -> Any:
    """Write the kernels to a new folder, with the file of the helper, and load their module."""
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL)
    if own_helper:
        (folder / "helper.py").write_text(HELPER)
        monkeypatch.setitem(sys.modules, "helper", load_module(folder / "helper.py", "helper"))
    return load_module(folder / "kernel.py", f"kernel_of_{folder.name}")


def source(module: Any, name: str) -> KernelSource:
    return KernelSource(
        name=name,
        function=getattr(module, name),
        signature={"x_ptr": "*fp32", "f": "constexpr"},
        constants={(1,): module.inner if name == "given" else 0},
        hints={},
        options={},
    )


def files_of(text: str, stage: str) -> set[str]:
    return {line.location.file for line in annotate(stage, text) if line.location} - {""}


def expected_files(folder: Path, name: str, helper: Path) -> set[str]:
    files = {str(folder / "kernel.py")}
    return files if name == "plain" else {*files, str(helper / "helper.py")}


@pytest.mark.parametrize("target", ["sm_90", pytest.param("gfx942", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["plain", "calling", "given"])
def test_stages_name_the_file_that_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: str
) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        module = written(folder, monkeypatch)
        compiled = compile_for(source(module, name), read_target(target))
        for stage in set(compiled.stages) - {"ast"}:
            files = files_of(compiled.text(stage), stage)
            assert files == expected_files(folder, name, folder), stage


def test_a_helper_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile two files with the same kernel that call the same file of a helper."""
    first = written(tmp_path / "one", monkeypatch)
    second = written(tmp_path / "two", monkeypatch, own_helper=False)
    target = read_target("sm_90")
    for module, folder in ((first, "one"), (second, "two")):
        text = compile_for(source(module, "calling"), target).text("ttgir")
        assert files_of(text, "ttgir") == expected_files(
            tmp_path / folder, "calling", tmp_path / "one"
        )


def test_unchanged_files_are_found_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    module = written(tmp_path / "one", monkeypatch)
    target = read_target("sm_90")
    compile_for(source(module, "calling"), target)
    entries = sorted(cache.iterdir())
    reloaded = load_module(tmp_path / "one" / "kernel.py", "kernel_again")
    compile_for(source(reloaded, "calling"), target)
    assert sorted(cache.iterdir()) == entries


def test_compilations_by_triton_can_be_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.compiler import ASTSource

    def compiled(folder: str) -> str:
        kernel_source = source(written(tmp_path / folder, monkeypatch), "calling")
        ast_source = ASTSource(
            kernel_source.function, dict(kernel_source.signature), dict(kernel_source.constants), {}
        )
        target = read_target("sm_90").gpu_target()
        return str(triton.compile(ast_source, target=target).asm["ptx"])

    texts = [compiled("zero"), compiled("one")]
    if files_of(texts[1], "ptx") == expected_files(tmp_path / "one", "calling", tmp_path / "one"):
        pytest.fail("Triton distinguishes files itself, so `keep_files_apart` can be removed")
    with Patches() as patches:
        keep_files_apart(patches)
        text = compiled("two")
    assert files_of(text, "ptx") == expected_files(tmp_path / "two", "calling", tmp_path / "two")
