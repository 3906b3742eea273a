"""Random kernels: claims about all sizes agree with runs at every size."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.prove import kernels

from ttools.ir.expr import as_expr
from ttools.prove.analysis import Analysis
from ttools.prove.host.launches import run_host
from ttools.prove.host.symbolic_numbers import Path as WayThroughHost
from ttools.prove.host.symbolic_numbers import SymbolicInt

_LAST = 20
_TEMPLATE = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, s, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    offs = pid * BLOCK + lane
    for k in range({first}, {trips}{step}):
        i = {load} + tl.zeros([BLOCK], tl.int32)
        x = tl.load(x_ptr + i, mask={load_mask})
        j = {store} + tl.zeros([BLOCK], tl.int32)
        tl.store(y_ptr + j, x + lane, mask={store_mask})

def run(n):
    s = {s}
    x, y = torch.randn({extent}), torch.empty({other_extent})
    kernel[({grid},)](x, y, n, s, BLOCK={block})
"""


def _index(choose: random.Random, depth: int) -> str:
    if not depth:
        return choose.choice(["offs", "offs", "pid", "lane", "k"])
    inner = _index(choose, depth - 1)
    return choose.choice(
        [
            f"({inner} * {choose.choice(['n', 's', '3'])})",
            f"({inner} + {_index(choose, depth - 1)})",
            f"({inner} // {choose.choice(['4', 'BLOCK', '3'])})",
            f"({inner} % {choose.choice(['8', 'n', 'BLOCK'])})",
            f"tl.minimum({inner}, {choose.choice(['n - 1', '7'])})",
            f"tl.where({inner} < n, {inner}, {choose.choice(['0', 'n - 1'])})",
            f"({inner} - {choose.choice(['n', '2', 'pid'])})",
            f"(({inner}) * {choose.choice(['9', 'n', '40'])}).to(tl.{choose.choice(_NARROW)})",
            f"({inner} >> {choose.choice(['1', '2'])})",
            f"({inner} & {choose.choice(['7', '5', '-4'])})",
            f"({inner} {choose.choice('|^')} {choose.choice(['1', '3', '5', '-4'])})",
            f"tl.flip({inner} + tl.zeros([BLOCK], tl.int32))",
            f"tl.umulhi(({inner}).to(tl.uint32), 1 << {choose.choice(['30', '31'])}).to(tl.int32)",
            f"tl.maximum({inner}, {_index(choose, depth - 1)})",
        ]
    )


_NARROW = ("int8", "uint8", "int16")


def _trips(choose: random.Random) -> str:
    narrow = ["(pid + n * 20).to(tl.int8)", "(pid + n * 9).to(tl.uint8) // 8"]
    end = choose.choice(["n", "s", "pid + 1", *narrow])
    return choose.choice(["1", "1", "1", "3", "s", f"{end}", f"tl.minimum({end}, 6)", f"5 - {end}"])


def _mask(choose: random.Random, index: str) -> str:
    ways = [f"{index} < n", f"({index} < n) & ({index} >= 0)", "offs < n", f"{index} + 1 < n"]
    return choose.choice([*ways, "None", f"({index} < n) | (offs == 0)"])


def _module(folder: Path, seed: int) -> ModuleType:
    choose = random.Random(seed)
    extents = ["n", "n * s", "n + 3", "max(n, 8)", "n * n", "(n + 1) // 2"]
    text = _TEMPLATE.format(
        first=choose.choice(["0", "0", "0", "pid", "-1"]),
        trips=_trips(choose),
        step=choose.choice(["", "", ", 2", ", s"]),
        load=_index(choose, choose.randrange(3)),
        store=_index(choose, choose.randrange(2)),
        load_mask=_mask(choose, "i"),
        store_mask=_mask(choose, "j"),
        s=choose.choice(["2", "n", "triton.cdiv(n, 4)", "min(n, 5)"]),
        extent=choose.choice(extents),
        other_extent=choose.choice(extents),
        grid=choose.choice(["triton.cdiv(n, 4)", "4", "min(n, 3)", "max(1, n // 4)"]),
        block=choose.choice([4, 8]),
    )
    return load_text(folder, f"sizes_random_{seed}", text)


def load_text(folder: Path, name: str, text: str) -> ModuleType:
    """Write a text to a file and import it as a module."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(number, marks=pytest.mark.slow) for number in range(5, 14))]
)
def test_claims_hold_at_every_size(tmp_path: Path, seed: int) -> None:
    check_claims(_module(tmp_path, seed))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(kernels.interleaved, marks=pytest.mark.slow),
        kernels.split,
        kernels.split_past,
    ],
)
def test_claims_of_joined_offsets_hold_at_every_size(run: Callable[[int], None]) -> None:
    check_claims(SimpleNamespace(run=run))
    result = Analysis(run, {"n": (1, _LAST)}).analyse()
    defects = [(defect.event.kind, defect.sizes) for defect in result.defects]
    assert defects == ([("oob_store", {"n": 1})] if run is kernels.split_past else [])


@pytest.mark.parametrize(
    "run",
    [
        kernels.two_ways_to_store,
        kernels.masks_meet,
        pytest.param(kernels.concatenated, marks=pytest.mark.slow),
    ],
)
def test_claims_of_lanes_with_several_cases(run: Callable[[int], None]) -> None:
    check_claims(SimpleNamespace(run=run))
    result = Analysis(run, {"n": (1, _LAST)}).analyse()
    defects = [(defect.event.kind, defect.sizes) for defect in result.defects]
    expected = {
        kernels.two_ways_to_store: [("overlapping_store", {"n": 5})],
        kernels.masks_meet: [("overlapping_store", {"n": 9})],
    }
    assert defects == expected.get(run, [])
    assert run in expected or result.verdict == "proved"


def check_claims(module: ModuleType | SimpleNamespace) -> None:
    """Check the claims about all sizes of `run(n)` by runs at each size."""
    run = module.run
    analysis = Analysis(run, {"n": (1, _LAST)})
    result = analysis.analyse()
    (symbol,) = analysis._symbols.values()
    truth: dict[tuple[str, object], int] = {}
    whole = True
    for n in range(1, _LAST + 1):
        path = WayThroughHost({symbol: n})
        host_run = run_host(
            run, {"n": SymbolicInt(as_expr(symbol))}, path, analysis.state.kernels.written
        )
        for launch in host_run.launches:
            trial = analysis.state.trial(launch, {symbol: n})
            whole = whole and trial.is_whole
            for event in trial.events:
                truth.setdefault((event.kind, event.op.location), n)
    if result.verdict == "proved":
        assert truth == {}
    for defect in result.defects:
        first = truth.get((defect.event.kind, defect.event.op.location), _LAST + 1)
        assert first <= defect.sizes["n"]
        assert first == defect.sizes["n"] or not defect.is_least
    if not whole:
        pytest.skip("the claims agree with all runs, but some launches cannot be run completely")
