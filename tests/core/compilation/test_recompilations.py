"""Parameters whose specialisation causes compilations, and the cost of not specialising them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.core.compilation.html import write_page
from ttools.core.compilation.inspection import Inspection, inspect_sources
from ttools.core.compilation.recompilations import Recompilation, recompilations
from ttools.core.compilation.specialisation import captured
from ttools.core.gpus.targets import Target, read_target
from ttools.interpreter import interpret


def row_kernel(x_ptr, y_ptr, n, stride, B: tl.constexpr):
    lanes = tl.arange(0, B)
    at = tl.program_id(0) * stride + lanes
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=lanes < 128), mask=lanes < 128)
    tl.store(y_ptr + n, 1.0)


KERNEL = triton.jit(row_kernel)
UNSPECIALISED = triton.jit(do_not_specialize=["n"])(row_kernel)
TARGET: Target = read_target("sm_90")


def found(*launches: tuple[int, int], kernel: triton.JITFunction = KERNEL) -> list[Recompilation]:
    return recompilations(inspected(*launches, kernel=kernel))


def inspected(*launches: tuple[int, int], kernel: triton.JITFunction = KERNEL) -> list[Inspection]:
    kernel.device_caches.clear()  # launches of earlier tests would not be compiled again
    x, y = torch.zeros(4096), torch.zeros(4096)
    with captured() as sources, interpret():
        for n, stride in launches:
            kernel[(2,)](x, y, n, stride, B=256)
    return inspect_sources(sources, TARGET)


def test_an_argument_that_costs_nothing() -> None:
    (item,) = found((2, 256), (1, 256), (16, 256), (5, 256))
    assert (item.parameter, item.compilations, item.avoidable) == ("n", 3, 2)
    assert item.specialisations == ("i32", "constant 1", "i32, divisible by 16")
    assert item.remedy == 'do_not_specialize=["n"]'
    assert item.narrowed == ()
    cause, remedy = item.lines()
    assert cause.startswith("`row_kernel` was compiled 3 times for sm_90; `n` causes 2 of these")
    assert remedy.endswith("avoids them; no access to global memory becomes narrower")


def test_an_argument_whose_specialisation_widens_accesses() -> None:
    (item,) = found((2, 256), (2, 255))
    assert (item.parameter, item.avoidable) == ("stride", 1)
    assert [(e.before, e.now) for e in item.narrowed] == [(64, 32), (64, 32)]
    assert item.as_dict()["narrowed"][0]["before"] == 64
    assert "become narrower: line" in item.lines()[1]


def test_the_parameter_that_causes_most_compilations_comes_first() -> None:
    items = found((2, 256), (1, 256), (16, 256), (2, 255))
    assert [(item.parameter, item.avoidable) for item in items] == [("n", 2), ("stride", 1)]


def test_nothing_is_reported_without_avoidable_compilations() -> None:
    assert found((2, 256), (3, 256)) == []
    assert found((2, 256), (1, 256), (16, 256), kernel=UNSPECIALISED) == []


def test_the_page_lists_recompilations() -> None:
    inspections = inspected((2, 256), (16, 256))
    page = write_page(inspections, ["ttir"], None, recompilations(inspections))
    assert "<h2>Recompilations</h2>" in page
    assert "do_not_specialize" in page
    assert "<h2>Recompilations</h2>" not in write_page(inspections, ["ttir"])
