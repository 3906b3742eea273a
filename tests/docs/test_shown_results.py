"""Results of the API are displayed in notebooks, with the source lines that they concern."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.environment import examine
from ttools.interpreter import interpret
from ttools.interpreter.records.launch_recorder import record
from ttools.profiler import profile
from ttools.sanitizer import sanitize
from ttools.tuner import TuneOptions, TuningRun
from ttools.watch import watch


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * 2)
    tl.store(out_ptr + offs, x * 2, mask=offs < n)


tuned = triton.autotune([triton.Config({"BLOCK": size}) for size in (256, 512)], key=["n"])(scale)


def launch() -> None:
    scale[(4,)](torch.arange(2000.0), torch.empty(1000), 1000, BLOCK=256)


def line(text: str) -> str:
    lines, start = inspect.getsourcelines(scale.fn)
    (number,) = [n for n, line in enumerate(lines) if text in line]
    return f"test_shown_results.py:{start + number}"


def interpreted(_: Path) -> Any:
    with interpret() as run:
        launch()
    return run


def watched(_: Path) -> Any:
    with watch(["x"], programs="0") as run:
        launch()
    return run


def compared(_: Path) -> Any:
    with watch(["x"], programs="0", compare="eager") as run:
        launch()
    return run


def drawn(_: Path) -> Any:
    with watch(picture=True) as run:
        launch()
    return run


def checked(_: Path) -> Any:
    with sanitize() as run:
        launch()
    return run


def profiled(_: Path) -> Any:
    with profile(gpu="h100", line_times=False) as run:
        launch()
    return run.analyse()


def tuning(_: Path) -> Any:
    with TuningRun(TuneOptions(workers=0), on="cpu") as run:
        tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](
            torch.arange(2048.0), torch.empty(1000), 1000
        )
    return run


def recorded(folder: Path) -> Any:
    with record(folder / "launch.tt") as run:
        launch()
    return run


LOAD, STORE = "tl.load(x_ptr + offs * 2)", "tl.store(out_ptr + offs, x * 2, mask=offs < n)"
CASES: dict[str, tuple[Callable[[Path], Any], list[str], list[str]]] = {
    # Function that returns the result, texts in both text and HTML, texts only in the text.
    "interpret": (interpreted, ["Kernel launches", "scale"], []),
    "watch": (watched, ["scale, launch 0", line(LOAD), f"x = {LOAD}", "mean 255"], []),
    "compare": (compared, ["no difference between native code and Python in 1 value"], []),
    "picture": (drawn, [], [f"x = {LOAD}"]),
    "findings": (
        lambda folder: checked(folder).findings,
        ["error", line(LOAD), f"x = {LOAD}", "out-of-bounds load of 4", "24 lanes"],
        [],
    ),
    "finding": (lambda folder: checked(folder).findings[0], ["out-of-bounds load", "^^^^"], []),
    "sanitize": (checked, ["out-of-bounds load of 4"], []),
    "profile": (
        profiled,
        ["timed on the CPU, bounds of h100", line(STORE), "sectors", "Advice", "pad rows"],
        [],
    ),
    "inspect": (
        lambda folder: profiled(folder).inspections[0],
        ["scale for sm_90", "constant 256", line(LOAD), f"x = {LOAD}", "occupancy"],
        [],
    ),
    "tune": (tuning, [line("@triton.jit"), "BLOCK=256", "BLOCK=512", "winner", "1.00"], []),
    "record": (recorded, ["1 of 1 launches", "x_ptr: float32[2000]", "test_shown_results.py:"], []),
    "doctor": (lambda _: examine(), ["triton", "torch"], []),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_displayed(name: str, tmp_path: Path) -> None:
    make, everywhere, in_text = CASES[name]
    bundle = make(tmp_path)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    for text in (*everywhere, *in_text):
        assert text in bundle["text/plain"]
    for text in everywhere:
        escaped = text.replace("&", "&amp;").replace("<", "&lt;")
        assert escaped in bundle["text/html"] or escaped in bundle["text/html"].replace(
            "&amp;", "&"
        )


def test_a_picture_is_displayed_if_there_is_one(tmp_path: Path) -> None:
    assert drawn(tmp_path)._repr_html_().startswith("<iframe")


def test_empty_results_are_displayed() -> None:
    with interpret() as ran, watch() as saw, profile() as timed, sanitize() as looked:
        pass
    with TuningRun(on="cpu") as tried:
        pass
    assert "no kernel was launched" in timed.analyse()._repr_html_()
    assert "no findings" in looked.findings._repr_html_()
    assert "no autotuned kernel" in tried._repr_html_()
    for result in (ran, saw, looked):
        assert set(result._repr_mimebundle_()) == {"text/plain", "text/html"}
