"""A finding names the line of the launch, and the user's lines that lead to it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def copied(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i))


def wrapper(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(16)
    copied[(1,)](x, out, B=16)  # launched
    return out


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return wrapper(x)  # calls the wrapper


def marked(text: str) -> str:
    lines = Path(__file__).read_text("utf-8").splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if line.endswith(f"  # {text}"))
    return f"{__file__}:{number}"


def test_the_stack_of_a_launch() -> None:
    with sanitize() as report:
        Layer()(torch.zeros(12))  # calls the layer
    (finding,) = report.findings
    assert finding.launch == marked("launched")
    assert finding.launch_callers == (marked("calls the wrapper"), marked("calls the layer"))
    (data,) = json.loads(report.to("json"))["findings"]
    assert data["launch_callers"] == list(finding.launch_callers)
    assert "the launch is called from " in report.to("text")


def test_a_launch_of_the_program_itself() -> None:
    with sanitize() as report:
        copied[(1,)](torch.zeros(12), torch.empty(16), B=16)
    (finding,) = report.findings
    assert finding.launch_callers == ()
