"""The log of compilations: launches per variant, autotuners, warm-ups, and the cache on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

from ttools.core.compilation.cache_misses import CacheMisses
from ttools.core.compilation.compilation_log import CompilationLog, observe_compilations
from ttools.core.location import shown_path
from ttools.core.process.user_module import load_file
from ttools.interpreter import interpret

X = torch.zeros(64)


def fill(x_ptr, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    tl.store(x_ptr + lanes, n + lanes, mask=lanes < 8)


def broken(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, 3), n)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give Triton an empty cache on disk."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


def launched(*numbers: int, options: dict[str, int] | None = None) -> CompilationLog:
    kernel = triton.jit(fill)
    with observe_compilations() as log, interpret():
        for n in numbers:
            kernel[(1,)](X, n, B=16, **(options or {}))
    return log


def test_launches_of_each_variant() -> None:
    log = launched(2, 3, 1, 5, 16, 1)
    assert [entry.launches for entry in log.compilations] == [3, 2, 1]
    assert [entry.earlier_launches for entry in log.compilations] == [0, 2, 4]
    assert all("test_compilation_log.py:" in str(e.source.launched) for e in log.compilations)
    assert all(entry.trials == 0 and not entry.warm_up for entry in log.compilations)


def test_variants_from_before_the_observation() -> None:
    kernel = triton.jit(fill)
    with interpret():
        kernel[(1,)](X, 2, B=16)
        with observe_compilations() as log:
            kernel[(1,)](X, 3, B=16)
            kernel[(1,)](X, 1, B=16)
    assert log.earlier_variants == 1
    assert [entry.source.parameters()["n"] for entry in log.compilations] == ["constant 1"]


def test_warm_ups_and_nested_logs() -> None:
    kernel = triton.jit(fill)
    with observe_compilations() as outer, interpret():
        with observe_compilations(names=["fill"]) as inner:
            kernel.warmup(torch.float32, 2, B=16, grid=(1,))
        kernel[(1,)](X, 3, B=16)
    for log in (outer, inner):
        (entry,) = log.compilations
        assert entry.warm_up
        assert "front end" in entry.phases or entry.cached
    assert (outer.compilations[0].launches, inner.compilations[0].launches) == (1, 0)


def test_selection_by_name() -> None:
    with observe_compilations(names=["other"]) as log, interpret():
        triton.jit(fill)[(1,)](X, 2, B=16)
    assert log.compilations == []


def test_an_autotuned_call_counts_as_one_launch() -> None:
    configs = [triton.Config({"B": block}) for block in (16, 32)]
    kernel = triton.autotune(configs, key=["n"])(triton.jit(fill))
    with observe_compilations() as log, interpret():
        kernel[(1,)](X, 5)
        kernel[(1,)](X, 5)
    assert [entry.earlier_launches for entry in log.compilations] == [0, 0]
    assert sum(entry.launches for entry in log.compilations) == 2
    assert all(entry.trials for entry in log.compilations)


def test_a_failed_compilation_is_recorded() -> None:
    with observe_compilations() as log, interpret(), pytest.raises(Exception, match="power of 2"):
        triton.jit(broken)[(1,)](X, 2, B=16)
    (entry,) = log.compilations
    assert entry.failed
    assert entry.launches == 0


def test_hits_and_misses_of_the_cache_on_disk(cache: Path) -> None:
    first = launched(2)
    (entry,) = first.compilations
    assert entry.cached is False
    assert entry.phases.keys() >= {"front end", "ttir"}
    assert CacheMisses(first.compilations, cache).reason(entry) == (
        "the cache has no earlier entry of a kernel with this name for this target"
    )
    second = launched(2, 1)
    assert [entry.cached for entry in second.compilations] == [True, False]
    assert second.compilations[0].phases == {}
    hit, miss = second.compilations
    misses = CacheMisses(second.compilations, cache)
    assert misses.reason(hit) is None
    assert misses.reason(miss) == "1 entry of this kernel: none has this specialisation"


def test_misses_because_of_options_and_of_the_environment(cache: Path) -> None:
    launched(2)
    log = launched(2, options={"num_warps": 8})
    assert CacheMisses(log.compilations, cache).reason(log.compilations[0]) == (
        "1 entry of this kernel: the most similar one differs: num_warps is 8, stored 4"
    )
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        log = launched(2)
    reason = CacheMisses(log.compilations, cache).reason(log.compilations[0])
    assert reason == "TRITON_ALWAYS_COMPILE is set"


def test_misses_because_the_text_has_changed(cache: Path) -> None:
    launched(2)
    kernel = triton.jit(fill)
    kernel._unsafe_update_src(kernel.src.replace("mask=lanes < 8", "mask=lanes < 7"))
    with observe_compilations() as log, interpret():
        kernel[(1,)](X, 2, B=16)
    assert CacheMisses(log.compilations, cache).reason(log.compilations[0]) == (
        "1 entry of this kernel: the text of the kernel or a callee, a constant or the file changed"
    )


def test_a_kernel_of_another_file_with_the_same_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def fill(x_ptr, n, B: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, B), n)\n"
    )
    with interpret():
        load_file("other.py").fill[(1,)](X, 2, B=16)
    log = launched(2)
    assert CacheMisses(log.compilations, cache).reason(log.compilations[0]) == (
        "1 entry of a kernel with this name in another file: the most similar one differs: the "
        f"file is {shown_path(__file__)}, stored other.py"
    )
