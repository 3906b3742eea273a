"""Tests of the lines of native code, from its debug information and from sampling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.location import SourceLocation
from ttools.interpreter import interpret
from ttools.interpreter.native import jit
from ttools.interpreter.native.line_table import line_table
from ttools.interpreter.run.line_samples import LINES, line_samples

_LOCATED = """
define i32 @ttools_run(ptr %p) !dbg !6 {
  store volatile i32 5, ptr %p, !dbg !7
  %a = load volatile i32, ptr %p, !dbg !8
  %b = mul i32 %a, 77, !dbg !8
  store volatile i32 %b, ptr %p, !dbg !9
  ret i32 %b, !dbg !9
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1, !2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !3, isOptimized: true, runtimeVersion: 0, \
emissionKind: LineTablesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !{i32 7, !"Dwarf Version", i32 4}
!3 = !DIFile(filename: "f", directory: "")
!4 = !DISubroutineType(types: !5)
!5 = !{}
!6 = distinct !DISubprogram(name: "f", file: !3, line: 1, type: !4, unit: !0, \
spFlags: DISPFlagDefinition | DISPFlagOptimized)
!7 = !DILocation(line: 1000, scope: !6)
!8 = !DILocation(line: 3, scope: !6)
!9 = !DILocation(line: 70000, scope: !6)
"""


def test_lines_come_in_the_order_of_the_code() -> None:
    table = line_table(jit.compile_ir(_LOCATED), jit.ENTRY)
    lines = list(dict.fromkeys(line for line in table.lines if line))
    assert lines == [1000, 3, 70000]
    assert table.starts[0] == 0
    assert table.lines[-1] == 0, "the code ends"
    last = max(n for n, line in enumerate(table.lines) if line)
    assert table.line_at(table.starts[last + 1] - 1) == table.lines[last]
    assert table.line_at(-1) == table.line_at(table.starts[-1] + 99) == 0


@pytest.mark.parametrize("damage", [slice(0, 3), slice(0, 200), slice(40, 48)])
def test_damaged_objects(damage: slice) -> None:
    object_code = bytearray(jit.compile_ir(_LOCATED))
    cut = (
        bytes(object_code[: damage.stop])
        if damage.start == 0
        else bytes(object_code).replace(bytes(object_code[damage]), b"\xff" * 8, 1)
    )
    with pytest.raises(ValueError, match="ELF"):
        line_table(cut, jit.ENTRY)


def test_code_without_lines() -> None:
    text = "define void @ttools_run(ptr %a, ptr %b) { ret void }"
    with pytest.raises(ValueError, match="no lines"):
        line_table(jit.compile_ir(text), jit.ENTRY)


class _Sampling:
    """An observer that samples every launch after it has run."""

    def __init__(self) -> None:
        self.places: list[Counter[SourceLocation | None]] = []

    def launch(self, launch):
        report = launch.execute(LINES)
        self.places.append(line_samples(launch, seconds=0.1))
        return report


@pytest.fixture
def sampling() -> Iterator[_Sampling]:
    observer = _Sampling()
    with interpret(observer=observer):
        yield observer


@triton.jit
def uneven_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    x = x * 3.0
    for _ in range(300):
        x = x * 0.999 + 0.25
    tl.store(x_ptr + offs, x - 1.0)


def test_most_samples_are_of_the_line_with_most_work() -> None:
    sampling = _Sampling()
    x, y = torch.ones(1 << 14), torch.ones(1 << 14)
    with interpret(observer=sampling):
        uneven_kernel[(16,)](x, BLOCK=1024)
    with interpret():
        uneven_kernel[(16,)](y, BLOCK=1024)
    assert torch.equal(x, y), "sampling did not restore memory"
    (places,) = sampling.places
    lines = Counter({p.line: n for p, n in places.items() if p is not None})
    first = uneven_kernel.starting_line_number
    heavy = first + next(n for n, line in enumerate(uneven_kernel.raw_src) if "0.999" in line)
    ((line, count),) = lines.most_common(1)
    assert line == heavy
    assert count > 0.6 * places.total()


@triton.jit
def two_dots_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    at = offs[:, None] * BLOCK + offs[None, :]
    x = tl.load(x_ptr + at)
    y = x
    for _ in range(20):
        y = tl.dot(y, x, input_precision="ieee")
    z = tl.dot(y, x, input_precision="ieee")
    tl.store(y_ptr + at, z)


def test_identical_code_of_two_lines_is_not_merged(sampling: _Sampling) -> None:
    x = torch.eye(64)
    two_dots_kernel[(1,)](x, torch.empty_like(x), BLOCK=64)
    (places,) = sampling.places
    lines = Counter({p.line: n for p, n in places.items() if p is not None})
    first = two_dots_kernel.starting_line_number
    often, once = (
        lines[first + next(n for n, line in enumerate(two_dots_kernel.raw_src) if text in line)]
        for text in ("y = tl.dot", "z = tl.dot")
    )
    assert often > 3 * once > 0


@triton.jit
def printing_kernel(x_ptr):
    tl.device_print("x", tl.load(x_ptr))


def test_launches_that_cannot_be_repeated(sampling: _Sampling) -> None:
    from ttools.core.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="a kernel that prints"):
        printing_kernel[(1,)](torch.ones(1))
