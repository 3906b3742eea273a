"""Launches as a tree of calls, with scopes and numbers from the program."""

from __future__ import annotations

import contextlib
from typing import Any

import hatchet
import pytest
import torch
import triton
import triton.language as tl
import triton.profiler as proton
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.process import script
from ttools.profiler import profile
from ttools.profiler.report.call_tree import call_tree
from ttools.profiler.report.chrome import chrome_trace
from ttools.profiler.run.origin import frames_of_proton
from ttools.profiler.run.session import Sample


def metadata(grid: Any, kernel: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": "told", "flops32": 7 * arguments["n"], "bytes": 9 * arguments["n"]}


@triton.jit
def plain_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


@triton.jit(launch_metadata=metadata)
def telling_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2.0, mask=offs < n)


def test_scopes_of_every_form() -> None:
    x = torch.ones(64)
    launch = plain_kernel[(1,)]

    @proton.scope("decorated")
    def decorated(depth: int) -> None:
        launch(x, 64, BLOCK=64)
        if depth:
            decorated(depth - 1)

    with profile() as prof:
        with proton.scope("outer"), proton.cpu_timed_scope("timed"):
            launch(x, 64, BLOCK=64)
        proton.enter_scope("entered", metrics={"bytes": 5})
        launch(x, 64, BLOCK=64)
        proton.exit_scope()
        decorated(1)
        launch(x, 64, BLOCK=64)
    analysis = prof.analyse()
    assert [sample.stack for sample in analysis.samples] == [
        ("outer", "timed"),
        ("entered",),
        ("decorated",),
        ("decorated", "decorated"),
        (),
    ]
    assert analysis.tree.children["entered"].bytes == 5
    with proton.scope("later"):
        launch(x, 64, BLOCK=64)  # the scope has ended
    assert analysis.launches == 5


def test_numbers_of_the_program_take_precedence() -> None:
    x = torch.ones(64)
    with profile() as prof:
        with proton.scope("told", {"flops": 100.0}):
            plain_kernel[(1,)](x, 64, BLOCK=64)
            plain_kernel[(1,)](x, 64, BLOCK=64)
        telling_kernel[(1,)](x, 64, BLOCK=64)
    analysis = prof.analyse()
    root = analysis.tree
    assert root.children["told"].flops == 100.0
    assert root.children["told"].bytes == 2 * 512
    assert (root.children["telling_kernel"].flops, root.children["telling_kernel"].bytes) == (
        *(7 * 64, 9 * 64),
    )
    assert root.flops == 100 + 7 * 64
    frame = analysis.frame.set_index("kernel")
    assert (frame.loc["telling_kernel", "flops"], frame.loc["telling_kernel", "bytes"]) == (
        *(7 * 64, 9 * 64),
    )
    assert list(frame.loc[["telling_kernel", "plain_kernel"], "told_by"]) == ["kernel", "counts"]
    assert frame.loc["plain_kernel", "flops"] == 64


def test_python_stacks() -> None:
    def inner() -> None:
        plain_kernel[(1,)](torch.ones(64), 64, BLOCK=64)

    with profile(context="python") as prof:
        inner()
    stack = prof.analyse().samples[0].stack
    assert stack[-1].startswith("inner (test_call_tree.py:")
    assert stack[-2].startswith("test_python_stacks (test_call_tree.py:")


def test_python_stacks_in_proton_s_form() -> None:
    stack = (
        "/usr/bin/ttools:1@main",
        f"{script.__file__}:9@run_target",
        "/home/me/triton/train.py:30@<module>",
        "/home/me/triton/train.py:12@step",
        f"{contextlib.__file__}:3@inner",
        f"{triton.__path__[0]}/runtime/jit.py:700@run",
        "<frozen runpy>:3@run",
        "a scope",
    )
    assert frames_of_proton(stack) == ("<module> (train.py:30)", "step (train.py:12)", "a scope")


def test_graphframe_is_of_llnl_hatchet() -> None:
    x = torch.ones(64)
    with profile() as prof, proton.scope("outer", {"mine": 3.0}):
        plain_kernel[(1,)](x, 64, BLOCK=64)
    analysis = prof.analyse()
    graphframe = analysis.graphframe
    assert isinstance(graphframe, hatchet.GraphFrame)
    rows = graphframe.dataframe.set_index("name")
    assert list(rows.index) == ["run", "outer", "plain_kernel"]
    assert rows.loc["run", "time (inc)"] == pytest.approx(analysis.samples[0].seconds)
    assert (rows.loc["outer", "time"], rows.loc["outer", "mine (inc)"]) == (0.0, 3.0)
    assert "outer" in graphframe.tree(metric_column="time (inc)")


samples_of = st.builds(
    Sample,
    kernel=st.sampled_from("abc"),
    launch=st.none(),
    seconds=st.floats(0, 10),
    counts=st.none(),
    begin=st.floats(0, 100),
    lane=st.sampled_from(["one", "two"]),
    stack=st.lists(st.sampled_from("xyz"), max_size=3).map(tuple),
    launches=st.integers(1, 4),
)


@given(samples=st.lists(samples_of, max_size=12))
def test_every_node_has_the_sum_of_its_children(samples: list[Sample]) -> None:
    root = call_tree(samples)
    assert root.launches == sum(sample.launches for sample in samples)
    for path in {sample.stack[:n] for sample in samples for n in range(4)}:
        node = root
        for name in path:
            node = node.children[name]
        own = [sample for sample in samples if sample.stack[: len(path)] == path]
        assert node.seconds == pytest.approx(sum(sample.seconds for sample in own))


@given(samples=st.lists(samples_of, max_size=12))
def test_chrome_has_an_event_per_timed_launch(samples: list[Sample]) -> None:
    events = chrome_trace(samples)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    launches = [(e["name"], names[e["tid"]], e["ts"]) for e in events if e["ph"] == "X"]
    timed = [sample for sample in samples if sample.launches == 1]
    assert launches == [(s.kernel, s.lane, s.begin * 1e6) for s in timed]
