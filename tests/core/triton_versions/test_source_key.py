"""Two files that hold the same kernel: what is cached of the one is never shown of the other."""

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
    """The module of a file under a name of the test's choice."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, *, own_helper: bool = True) -> Any:
    """The module with the kernels in a folder of its own, and the file of the helper."""
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


def own(folder: Path, name: str, helper: Path) -> set[str]:
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
            found = files_of(compiled.text(stage), stage)
            assert found == own(folder, name, folder), stage


def test_a_helper_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own file is another, that of the helper the same, and the other way round."""
    one = written(tmp_path / "one", monkeypatch)
    two = written(tmp_path / "two", monkeypatch, own_helper=False)
    target = read_target("sm_90")
    for module, folder in ((one, "one"), (two, "two")):
        text = compile_for(source(module, "calling"), target).text("ttgir")
        assert files_of(text, "ttgir") == own(tmp_path / folder, "calling", tmp_path / "one")


def test_what_was_compiled_before_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    module = written(tmp_path / "one", monkeypatch)
    target = read_target("sm_90")
    compile_for(source(module, "calling"), target)
    entries = sorted(cache.iterdir())
    again = load_module(tmp_path / "one" / "kernel.py", "kernel_again")
    compile_for(source(again, "calling"), target)
    assert sorted(cache.iterdir()) == entries


def test_triton_s_own_compilations_can_be_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.compiler import ASTSource

    def compiled(folder: str) -> str:
        found = source(written(tmp_path / folder, monkeypatch), "calling")
        made = ASTSource(found.function, dict(found.signature), dict(found.constants), {})
        target = read_target("sm_90").gpu_target()
        return str(triton.compile(made, target=target).asm["ptx"])

    texts = [compiled("zero"), compiled("one")]
    if files_of(texts[1], "ptx") == own(tmp_path / "one", "calling", tmp_path / "one"):
        pytest.fail("Triton keeps files apart itself: nothing needs to be replaced any more")
    with Patches() as patches:
        keep_files_apart(patches)
        text = compiled("two")
    assert files_of(text, "ptx") == own(tmp_path / "two", "calling", tmp_path / "two")
