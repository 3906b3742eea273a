"""The program reads a tensor that it never passed to the launch, instead of the output."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy, clean

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def doubled(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr + i, 2 * x, mask=i < n)  # BUG: unwritten_output


@buggy("unwritten_output", "o_ptr")
def a_contiguous_copy_of_the_output_is_written(fixed: bool) -> None:
    out = torch.empty(8, 5).t()
    written = out.contiguous()
    doubled[(2,)](torch.rand(40), written, 40, B=32)
    if fixed:
        out.copy_(written)
    out.sum()


@buggy("unwritten_output", "o_ptr")
def an_output_of_another_type_is_written(fixed: bool) -> None:
    out = torch.empty(40, dtype=torch.float32 if fixed else torch.float16)
    doubled[(2,)](torch.rand(40), out.float(), 40, B=32)
    out.clone().numpy()


@buggy("unwritten_output", "o_ptr")
def the_buffer_that_is_read_was_never_passed(fixed: bool) -> None:
    out, scratch = torch.empty(40), torch.empty(40)
    doubled[(2,)](torch.rand(40), scratch, 40, B=32)
    (scratch if fixed else out).tolist()


@clean
def a_template_is_cloned_for_each_launch() -> None:
    template = torch.empty(40)
    for _ in range(2):
        out = template.clone()
        doubled[(2,)](torch.rand(40), out, 40, B=32)
        out.sum()


@clean
def other_outputs_are_written_later() -> None:
    first, second, third = torch.empty(40), torch.empty(40), torch.empty(40)
    doubled[(2,)](torch.rand(40), first, 40, B=32)
    third.numpy()[:] = 1.0
    doubled[(2,)](first, second, 40, B=32)
    (first + second + third).sum()
