"""Types read off instructions are those that LLVM gives them."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from ttools.interpreter.llvm.value_types import value_type

_PARAMETERS = (
    "i32 %i, i64 %w, i1 %c, float %f, ptr %p, <4 x float> %v, <4 x float> %u, <4 x i1> %m, "
    "<4 x i64> %l, { i32, i1 } %s"
)
_INSTRUCTIONS = [
    "add nuw nsw i32 %i, 1",
    "fadd contract <4 x float> %v, %u",
    "fneg <4 x float> %v",
    "icmp ult i64 %w, 4",
    "fcmp olt <4 x float> %v, %u",
    "zext i32 %i to i64",
    "bitcast <4 x float> %v to <4 x i32>",
    "bitcast <4 x i1> %m to i4",
    "fptrunc <4 x float> %v to <4 x half>",
    "inttoptr <4 x i64> %l to <4 x ptr>",
    "select i1 %c, <4 x float> %v, <4 x float> %u",
    "select <4 x i1> <i1 false, i1 true, i1 false, i1 true>, <4 x float> %v, <4 x float> %u",
    "insertelement <4 x i64> poison, i64 %w, i64 0",
    "extractelement <4 x float> %v, i64 2",
    "shufflevector <4 x float> %v, <4 x float> poison, <2 x i32> <i32 1, i32 3>",
    "shufflevector <4 x float> %v, <4 x float> %u, <8 x i32> zeroinitializer",
    "getelementptr inbounds i8, ptr %p, i64 8",
    "getelementptr i8, ptr %p, <4 x i64> %l",
    "load i64, ptr %p, align 8",
    "load atomic i64, ptr %p monotonic, align 8",
    "atomicrmw add ptr %p, i64 %w seq_cst",
    "freeze float %f",
]


@pytest.mark.parametrize("text", _INSTRUCTIONS)
def test_a_type_is_that_of_the_value(text: str) -> None:
    # LLVM refuses a function that returns a value of another type than it says.
    type = value_type(text)
    llvm.parse_assembly(f"define {type} @f({_PARAMETERS}) {{\n  %x = {text}\n  ret {type} %x\n}}")


@pytest.mark.parametrize("text", ["extractvalue { i32, i1 } %s, 1", "va_arg ptr %p, i32", ""])
def test_what_is_not_known_has_no_type(text: str) -> None:
    assert not re.search("%", text) or value_type(text) is None
    assert value_type(text) is None
