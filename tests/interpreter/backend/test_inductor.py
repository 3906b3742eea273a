"""Tests of torch.compile under the device map, where ttools runs the kernels that Inductor writes.

Each test compiles few small graphs, because compilations are slow; the first one takes seconds.
`tests/libraries/test_inductor.py` tests models.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch._inductor.config", reason="torch cannot compile")

import torch
import triton
import triton.language as tl
from torch import Tensor

from ttools.core import inductor, triton_versions
from ttools.core.compilation.specialisation import launched
from ttools.core.device_map.mapping import map_devices
from ttools.core.errors import UnsupportedError
from ttools.core.launch_path import INDUCTOR, LAUNCHER, METADATA, observe, take_over
from ttools.core.patches import Patches
from ttools.interpreter import interpret
from ttools.interpreter.records.launch_recorder import record
from ttools.interpreter.run.tuned_launch import TunedCall

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")


@pytest.fixture(autouse=True)
def compiles_afresh(cpu_is_default: None) -> Iterator[None]:
    from torch._inductor import config

    # Commands also initialise the driver before the device map makes a GPU visible.
    triton_versions.active_driver()
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True), map_devices({"cuda": "cpu"}):
        yield


@triton.jit
def scaled_sum(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, at < n), tl.load(y_ptr + at, at < n)
    tl.store(out_ptr + at, x * factor + y, at < n)


CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)]
tuned_sum = triton.autotune(CONFIGS, key=["n"])(scaled_sum)


def by_grid(x: Tensor, y: Tensor) -> Tensor:
    doubled, out = x * 2, torch.empty_like(x)
    scaled_sum[(triton.cdiv(x.numel(), 128),)](doubled, y, out, x.numel(), 3.0, BLOCK=128)
    return out.sin()


def by_function(x: Tensor, y: Tensor) -> Tensor:
    doubled, out = x * 2, torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731 - as scripts have it
    scaled_sum[grid](doubled, y, out, x.numel(), 3.0, BLOCK=64)
    return out.sin()


def tuned(x: Tensor, y: Tensor) -> Tensor:
    doubled, out = x * 2, torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731 - as scripts have it
    tuned_sum[grid](doubled, y, out, x.numel(), 3.0)
    return out.sin()


@torch.library.triton_op("ttools_tests::scaled_sum", mutates_args={})
def operator(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 128),)
    torch.library.wrap_triton(scaled_sum)[grid](x, y, out, x.numel(), 3.0, 128)
    return out


def by_operator(x: Tensor, y: Tensor) -> Tensor:
    return operator(x * 2, y).sin()


USER_KERNELS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a grid": by_grid,
    "a function for a grid": by_function,
    "an autotuner": tuned,
    "triton_op": by_operator,
}


def test_a_run_can_stop_the_compilation_of_inductors_kernels() -> None:
    """Stop a compilation as `sanitize --timeout` does, which skips the launch."""
    x, stopped = torch.ones(100, device="cuda"), []

    def stop(name: str, compiles: Callable[[], Any]) -> Any:
        with pytest.raises(_LateError), triton_versions.each_visited_node(_raise_late):
            compiles()
        stopped.append(name)

    compiled = torch.compile(lambda x: x * 2 + 1)
    with interpret(compile_kernel=stop) as run:
        compiled(x)
    assert len(stopped) == 1
    assert sum(kernel.launches for kernel in run.stats) == 0
    with interpret(compile_kernel=lambda _, compiles: compiles()) as run:
        torch.testing.assert_close(compiled(x), x * 2 + 1)
    assert [kernel.launches for kernel in run.stats] == [1]


class _LateError(BaseException):
    """A replacement of `PhaseStopped`."""


def _raise_late() -> None:
    raise _LateError


@pytest.mark.parametrize("name", USER_KERNELS)
def test_kernels_of_the_script(name: str) -> None:
    x, y = torch.randn(2, 1000, device="cuda")
    with interpret(first_config=True) as run:
        result = torch.compile(USER_KERNELS[name], fullgraph=True)(x, y)
    torch.testing.assert_close(result, (x * 2 * 3 + y).sin())
    launches = {kernel.kernel: kernel.launches for kernel in run.stats}
    assert launches.pop("scaled_sum") == 1
    assert launches
    assert set(launches.values()) == {1}


def test_kernels_tuned_by_the_script_are_timed() -> None:
    x, y = torch.randn(2, 1000, device="cuda")
    with interpret(only=["scaled_sum"]) as run:
        result = torch.compile(tuned)(x, y)
    torch.testing.assert_close(result, (x * 2 * 3 + y).sin())
    [kernel] = run.stats
    assert kernel.launches > len(CONFIGS)


def test_forward_and_backward_of_a_reduction() -> None:
    x = torch.randn(30, 100, device="cuda", requires_grad=True)
    weight = torch.randn(100, 20, device="cuda", requires_grad=True)

    def loss(x: Tensor) -> Tensor:
        return (x @ weight).relu().softmax(-1).square().sum()

    def gradients(function: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(function(x), [x, weight])

    with interpret() as run:
        compiled = gradients(torch.compile(loss))
    torch.testing.assert_close(compiled, gradients(loss))
    assert any("backward" in kernel.kernel for kernel in run.stats)


def test_sizes_that_change_compile_once() -> None:
    def function(x: Tensor) -> Tensor:
        return (x * 2).softmax(-1).sum(0)

    compiled = torch.compile(function, dynamic=True)
    with interpret() as run:
        for rows in (3, 17, 64):
            x = torch.randn(rows, rows + 5, device="cuda")
            torch.testing.assert_close(compiled(x), function(x))
    assert {kernel.launches for kernel in run.stats} == {3}


def test_graph_breaks() -> None:
    conditions: list[bool] = []

    def function(x: Tensor) -> Tensor:
        x = x.sin()
        conditions.append(bool(x.sum() > 1e9))
        return x.cos()

    x = torch.randn(100, device="cuda")
    with warnings.catch_warnings(), interpret() as run:
        warnings.filterwarnings("error", "Dynamo does not know how to trace")
        torch.testing.assert_close(torch.compile(function)(x), x.sin().cos())
    assert conditions == [False]
    assert sum(kernel.launches for kernel in run.stats) >= 2


def test_numbers_keep_their_width() -> None:
    """Pass numbers whose type Inductor declares; Triton itself would make every float an f32."""
    x = torch.zeros(8, device="cuda", dtype=torch.float64)
    third = torch.tensor(1 / 3, dtype=torch.float64)
    with interpret():
        result = torch.compile(lambda x, scalar: x + scalar)(x, third)
    assert result.tolist() == [1 / 3] * 8


def test_the_eager_engine_runs_inductors_kernels() -> None:
    x = torch.randn(4, 20, device="cuda")
    with interpret(engine="eager") as run:
        result = torch.compile(lambda x: x.softmax(-1))(x)
    torch.testing.assert_close(result, x.softmax(-1))
    assert run.stats


def test_cuda_graphs_of_inductor_are_disabled() -> None:
    x = torch.randn(64, device="cuda")
    compiled = torch.compile(lambda x: x.sin() + 1, mode="reduce-overhead")
    with interpret() as run:
        for _ in range(3):
            torch.testing.assert_close(compiled(x), x.sin() + 1)
    assert [kernel.launches for kernel in run.stats] == [3]


def test_cpp_wrappers_are_errors() -> None:
    from torch._inductor import config, exc

    compiled = torch.compile(lambda x: x.sin())
    refused = pytest.raises(exc.InductorError, match=r"a C\+\+ wrapper of torch\.compile")
    with interpret(), config.patch(cpp_wrapper=True), refused as caught:
        compiled(torch.ones(8, device="cuda"))
    assert isinstance(caught.value.inner_exception, UnsupportedError)


def test_compiled_functions_work_in_later_runs() -> None:
    compiled = torch.compile(lambda x: x.sin() + 1)
    x = torch.randn(64, device="cuda")
    for _ in range(2):
        with interpret() as run:
            torch.testing.assert_close(compiled(x), x.sin() + 1)
        assert [kernel.launches for kernel in run.stats] == [1]


def test_no_run_is_needed() -> None:
    x = torch.randn(64, device="cuda")
    torch.testing.assert_close(torch.compile(lambda x: x.sin() + 1)(x), x.sin() + 1)


# ---- observers


@pytest.fixture
def warm() -> Callable[[], Tensor]:
    """Return a compiled function that launches two kernels, one of which the script tunes."""
    x, y = torch.randn(2, 1000, device="cuda")
    function = torch.compile(tuned)

    def launch() -> Tensor:
        with interpret(first_config=True):
            return function(x, y)

    launch()
    return launch


def test_observers_see_each_launch(warm: Callable[[], Tensor]) -> None:
    """Check the two steps of a launch at which observers of a GPU see it."""
    triton_calls: list[str] = []
    inductor_calls: list[str] = []
    with Patches() as patches:
        observe(
            patches, METADATA, before=lambda kernel, *_: triton_calls.append(kernel.src.fn.__name__)
        )
        observe(patches, INDUCTOR, before=lambda kernel, *_: inductor_calls.append(_name(kernel)))
        for _ in range(2):
            warm()
    assert inductor_calls == triton_calls
    assert len(inductor_calls) == 2 * len(set(inductor_calls)) >= 4


@triton.jit
def _minus_one(value):
    return value - 1


@triton.jit
def lowered(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, _minus_one(tl.load(x_ptr + at, at < n)), at < n)


def test_copies_of_kernels_have_the_locations_of_the_script() -> None:
    """Compile two kernels with the same name, of which Inductor renames one, and a helper."""
    first, second = lowered, _second_lowered()

    def function(x: Tensor) -> Tensor:
        out, last = torch.empty_like(x), torch.empty_like(x)
        first[(1,)](x, out, x.numel(), BLOCK=128)
        second[(1,)](out, last, x.numel(), BLOCK=128)
        return last

    compiled: list[str] = []
    with Patches() as patches, interpret():
        observe(patches, METADATA, before=lambda kernel, *_: compiled.append(kernel.asm["ttir"]))
        result = torch.compile(function)(torch.ones(100, device="cuda"))
    assert result.tolist() == [2.0] * 100
    for text, kernel in zip(compiled, (first, second), strict=True):
        lines = {int(line) for line in re.findall(rf'loc\("{__file__}":(\d+):', text)}
        source, start = inspect.getsourcelines(kernel.fn)
        assert start + len(source) - 1 in lines
        helper = inspect.getsourcelines(_minus_one.fn)[1]
        assert (helper + 2 in lines) == (kernel is first)
        assert set(re.findall(r'loc\("([^"]+\.py)":', text)) == {__file__}


def _second_lowered() -> Any:
    @triton.jit
    def lowered(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(x_ptr + at, at < n) + 2, at < n)

    return lowered


def _name(kernel: Any) -> str:
    return inductor.kernel_name(kernel)


def test_inductors_static_launcher_is_not_used(
    warm: Callable[[], Tensor],
) -> None:
    """Check that Inductor's static launcher, which bypasses Triton, is disabled."""
    from torch._inductor import config

    used: list[tuple[bool, bool]] = []

    def compiles(tuner: Any, *_: Any) -> None:
        used.append((inductor.is_launchable(tuner), config.use_static_cuda_launcher))

    kernels: list[Any] = []
    with Patches() as patches:
        observe(patches, INDUCTOR, before=lambda kernel, *_: kernels.append(kernel))
        warm()
    kernel = inductor.original(kernels[0])
    with config.patch(use_static_cuda_launcher=True):
        inductor.asking(compiles)(kernel)
        inductor.asking(compiles)(inductor.launchable(kernel, for_gpu=True))
    assert used == [(False, True), (True, False)]


def test_the_launcher_can_be_replaced(warm: Callable[[], Tensor]) -> None:
    launches: list[tuple[Any, ...]] = []

    def log_launches(original: Any) -> Any:
        def run(kernel: Any) -> Any:
            launch = original.__get__(kernel, type(kernel))

            def logged_launch(*arguments: Any) -> Any:
                launches.append(arguments[:3])
                return launch(*arguments)

            return logged_launch

        return property(run)

    with Patches() as patches:
        take_over(patches, LAUNCHER, log_launches)
        warm()
        assert len(launches) >= 2
    before = len(launches)
    warm()
    assert len(launches) == before


def test_specialisations_are_listed_once(warm: Callable[[], Tensor]) -> None:
    with launched() as kernels:
        warm()
        warm()
    names = [kernel.src.fn.__name__ for kernel in kernels]
    assert "scaled_sum" in names
    assert len(names) == len(set(names)) >= 2


def test_records_contain_each_launch_once(warm: Callable[[], Tensor], tmp_path: Path) -> None:
    with record(tmp_path / "launches.tt", launches="0:100") as recorder:
        warm()
    assert recorder.notes == []
    assert recorder.seen == recorder.recorded >= 2
    launches = recorder.record().launches
    configs = {launch.spec.kernel: launch.spec.site.config for launch in launches}
    assert configs["scaled_sum"] is not None
    assert configs["scaled_sum"]["BLOCK"] == 64


def test_tuners_select_configurations() -> None:
    """Tune kernels of the script and of Inductor, which Triton's autotuner then launches."""
    launches: dict[str, int] = {}

    def last(launch: TunedCall) -> Any:
        launches[launch.kernel] = len(launch.configs)
        results = [launch.run(config) for config in launch.configs]
        return results[-1]

    x, y = torch.randn(2, 64, 100, device="cuda")
    with interpret(first_config=True, tune=last) as run:
        result = torch.compile(lambda x, y: tuned(x, y).softmax(-1))(x, y)
    torch.testing.assert_close(result, (x * 2 * 3 + y).sin().softmax(-1))
    assert launches["scaled_sum"] == len(CONFIGS)
    counts = {kernel.kernel: kernel.launches for kernel in run.stats}
    assert {name: counts[name] for name in launches} == launches
