"""Progress of long runs in terminals and pipes, for each command."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

from ttools.cli.progress import State, Ticker

FILE = Path(__file__).parents[1] / "verifier" / "kernels_for_verify.py"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("ttools.cli.progress.time.monotonic", clock)
    return clock


def state(done: int, what: str = "tuning k", waits: bool = False) -> State:
    facts = ("best 55.1 us", "3 rejected")
    return State(what=what, done=done, total=96, unit="configurations", facts=facts, waits=waits)


def test_pipes_get_a_line_every_ten_seconds(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    ticker = Ticker(shared=True)
    for clock.now in range(31):
        ticker.tick(state(2 * int(clock.now)))
    assert stream.getvalue().splitlines() == [
        f"note: tuning k: {2 * t} of 96 configurations, 2/s, {(96 - 2 * t) // 2} s left, "
        f"best 55.1 us, 3 rejected after {t} s"
        for t in (10, 20, 30)
    ]


def test_terminals_get_a_bar_that_is_erased(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "80")
    ticker = Ticker(shared=True)
    ticker.tick(state(12))
    assert stream.getvalue() == "", "short runs show nothing"
    clock.now = 4.0
    ticker.tick(state(48))
    shown = stream.getvalue().removeprefix("\r\x1b[2K")
    assert shown.startswith("[########........] tuning k: 48 of 96 configurations, 9/s, 5 s left")
    assert len(shown) < 80
    assert "\n" not in shown
    ticker.clear()
    assert stream.getvalue().endswith("\r\x1b[2K")
    # The rate is measured anew for each kernel.
    ticker.tick(state(1, "tuning other"))
    clock.now = 6.0
    ticker.tick(state(5, "tuning other"))
    assert "tuning other: 5 of 96 configurations, 2/s" in stream.getvalue()


def test_no_bar_if_the_script_writes_to_the_terminal(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", Terminal())
    ticker = Ticker(shared=True)
    clock.now = 5.0
    ticker.tick(state(1))
    assert stream.getvalue() == ""
    ticker.tick(state(1, waits=True))
    assert stream.getvalue().startswith("\r\x1b[2K[")
    clock.now = 11.0
    ticker.tick(state(1))
    assert stream.getvalue().endswith("\r\x1b[2Knote: " + stream.getvalue().rpartition("note: ")[2])
    assert stream.getvalue().endswith(" after 11 s\n")


SCRIPT = """\
import torch, triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": n}) for n in (64, 128)], key=["n"])
@triton.jit
def k(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, offs, mask=offs < n)

k[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](torch.empty(1000), 1000)
"""
SIZED = """\
import torch, triton
import triton.language as tl

@triton.jit
def k(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, offs, mask=offs < n)

def run(n):
    k[(triton.cdiv(n, 64),)](torch.empty(n), n, BLOCK=64)
"""
#: Shortens all intervals, so that short runs report their progress, too.
HASTY = """\
import sys
from ttools.cli import progress
from ttools.cli.app import main
progress._LINE_EVERY_S = progress._BAR_AFTER_S = 0.0
progress._REDRAWN_EVERY_S = 0.001
main(sys.argv[1:])
"""


def test_a_verification_that_reduces_failures_does_not_predict_its_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ttools.cli.verify.command import _state

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    ticker = Ticker(shared=True)
    for clock.now in range(31):
        activity = "reducing the inputs of failure 1 of 2" if clock.now > 10 else ""
        ticker.tick(_state(min(6, int(clock.now)), 5, 400, activity))
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("note: verified: 6 of 400 cases at most, ")
    assert others == [
        f"note: reducing the inputs of failure 1 of 2, 5 of 6 cases failed after {t} s"
        for t in (20, 30)
    ]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("profile", "--gpu", "h100", "s.py"), ("profiled: ", "analysing kernels: ")),
        (("sanitize", "s.py"), ("compilation of k (launch 1) after 0 s",)),
        pytest.param(
            *(("sanitize", "--sizes", "n=1:100", "sized.py:run"), ("all sizes: ",)),
            marks=pytest.mark.slow,
        ),
        (("tune", "--workers", "0", "s.py"), ("tuning k: ", "best ", "0 rejected")),
        (("inspect", "--lock", "l", "s.py"), ("captured: ", "compiled: 0 of 1 kernel ")),
        pytest.param(
            (
                *("verify", "--cases", "3", "--reference", f"{FILE}:reference"),
                *("--inputs", f"{FILE}:inputs", f"{FILE}:right"),
            ),
            ("verified: 2 of 3 cases at most",),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("doctor", "--self-test", "0.1"), ("self-test: 1 kernel,",), marks=pytest.mark.slow
        ),
    ],
    ids=lambda sentence: sentence[0] if sentence[0] in ("profile", "tune") else "",
)
def test_commands_report_their_progress(
    tmp_path: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    (tmp_path / "s.py").write_text(SCRIPT)
    (tmp_path / "sized.py").write_text(SIZED)
    environment = {**os.environ, "TTOOLS_PROGRESS": "auto"}
    result = PYTHON.run(["-c", HASTY, *words], cwd=tmp_path, env=environment)
    for part in parts:
        assert part in result.stderr, result.stderr
    if words[0] == "inspect":  # one command suffices to test `--quiet`
        for silent in (["-c", HASTY, "--quiet", *words], ["-c", HASTY, *words]):
            quiet = {**environment, "TTOOLS_PROGRESS": "auto" if "--quiet" in silent else "off"}
            assert "compiled" not in PYTHON.run(silent, cwd=tmp_path, env=quiet).stderr
