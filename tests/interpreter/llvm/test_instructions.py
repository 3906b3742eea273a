"""Tests that the results of instructions have the types of LLVM."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import TRUE, SSAValue, integer, poison, zeros

_PARAMETERS = [
    SSAValue(f"%{name}", type)
    for name, type in {
        "i": "i32",
        "w": "i64",
        "c": "i1",
        "p": "ptr",
        "v": "<4 x float>",
        "u": "<4 x float>",
        "m": "<4 x i1>",
        "l": "<4 x i64>",
        "s": "{ i32, i1 }",
    }.items()
]
_I, _W, _C, _P, _V, _U, _M, _L, _S = _PARAMETERS
_MAKERS: dict[str, Callable[[Builder], SSAValue]] = {
    "sum": lambda b: b.binary("add nuw nsw", _I, 1),
    "sum of lanes": lambda b: b.binary("fadd contract", _V, _U),
    "sum of lanes and a number": lambda b: b.binary("add", _L, 7),
    "comparison": lambda b: b.compare("icmp ult", _W, 4),
    "comparison of lanes": lambda b: b.compare("fcmp olt", _V, _U),
    "comparison of lanes with a number": lambda b: b.compare("icmp ult", _L, 4),
    "cast": lambda b: b.cast("zext", _I, "i64"),
    "bits of lanes": lambda b: b.bitcast(_M, "i4"),
    "bits of each lane": lambda b: b.cast("bitcast", _V, "i32"),
    "pointers": lambda b: b.cast("inttoptr", _L, "ptr"),
    "choice": lambda b: b.select(TRUE, _V, zeros(_V.type)),
    "choice of lanes": lambda b: b.select(_M, _V, _U),
    "load": lambda b: b.load("i64", _P, 8),
    "volatile load": lambda b: b.load("float", _P, op="load volatile"),
    "atomic load": lambda b: b.load("i64", _P, 8, op="load atomic", ordering="monotonic"),
    "choice of a number": lambda b: b.select(_M, _L, 3),
    "change": lambda b: b.change("add", _P, _W, "seq_cst"),
    "compare_exchange": lambda b: b.compare_exchange(_P, integer(0, "i64"), _W, "acq_rel"),
    "bytes further": lambda b: b.offset(_P, 8),
    "element": lambda b: b.element("float", _P, _W, inbounds=False),
    "elements": lambda b: b.element("i8", _P, _L),
    "lane": lambda b: b.extract(_V, 2),
    "other lane": lambda b: b.insert(poison(_L.type), _W, 0),
    "lanes of two": lambda b: b.shuffled(_V, _U, [1, 7], 2),
    "first lane": lambda b: b.shuffled(_V, poison(_V.type), None, 8),
    "field": lambda b: b.field(_S, 1),
    "other field": lambda b: b.with_field(_S, _I, 0),
    "call": lambda b: b.intrinsic("llvm.smax.i64", "i64", _W, _W),
    "call on lanes": lambda b: b.overloaded("fma", _V, _U, _V),
    "gather": lambda b: b.gather(b.element("float", _P, _L), "float", _M),
    "reduction": lambda b: b.any_lane(_M),
    "some lanes": lambda b: b.shuffle(_V, [3, 0]),
    "some lanes of a mask": lambda b: b.shuffle(_M, [3, 0]),
    "lanes of a mask or none": lambda b: b.shuffled(_M, zeros(_M.type), [1, 7], 2),
    "splat": lambda b: b.splat(_W, 4),
    "splat literal": lambda b: b.splat(integer(-3, "i64"), 4),
}


@pytest.mark.parametrize("make", _MAKERS.values(), ids=_MAKERS)
def test_results_have_the_type_of_llvm(make: Callable[[Builder], SSAValue]) -> None:
    # LLVM rejects a function that returns a value whose type differs from the declared type.
    b = Builder()
    with b.function_body() as lines:
        value = make(b)
        b.ret(value)
    head = f"define {value.type} @f({', '.join(f'{p.type} {p}' for p in _PARAMETERS)})"
    b.define_function("f", head, lines)
    llvm.parse_assembly("\n".join([*b.declarations.values(), b.definitions["f"]])).verify()
