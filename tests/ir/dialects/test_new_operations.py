"""Tests that every analysis handles operations that only these tests declare.

An analysis that knew operations by name instead of by declaration would fail here.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ttools.fuzz.elements import I32
from ttools.fuzz.operations.table import Frame, evaluate
from ttools.fuzz.program import Expr as FuzzExpr
from ttools.fuzz.program import Type
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.launch_bounds import AccessBounds, Memory
from ttools.interpreter.analysis.strides import memory_order, static_strides
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.ir import Module, Value
from ttools.ir.dialects import OPERATIONS, Op
from ttools.ir.dialects.coordinates import Lanes, ViewShapes
from ttools.ir.dialects.traits import (
    COMMUTATIVE,
    ELEMENTWISE,
    INTEGER_UNIT,
    PURE,
    REGULAR,
    VIEW,
)
from ttools.ir.domains.axis_info import AxisInfoAnalysis
from ttools.ir.domains.launch_intervals import Intervals
from ttools.ir.domains.regularity import Regularity
from ttools.ir.expr import SIZE, ZERO, Expr, Symbol, as_expr
from ttools.ir.parser import parse_module
from ttools.profiler.counting.rewrite import plan_counting
from ttools.prove.algebra.proofs import Space
from ttools.prove.concrete.run import ConcreteRun
from ttools.prove.host.launches import Memory as HostMemory
from ttools.prove.host.launches import SymbolicCall
from ttools.prove.symbolic.conditions import unproved
from ttools.sanitizer.passes import overflow
from ttools.sanitizer.passes.implication import MovedMask, implies

_TILE = "tensor<4x16xi32>"
_TURNED = "tensor<16x4xi32>"


def _turned(view: ViewShapes) -> tuple[Lanes, ...]:
    """Return the lane mapping of a view that moves the first axis to the end."""
    rank = len(view.result)
    return (Lanes(0, tuple((axis - 1) % rank for axis in range(rank))),)


@pytest.fixture(autouse=True)
def declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare `test.distance`, |x - y|, `test.thrice`, 3x + 16, and the view `test.turn`."""
    elementwise = frozenset({PURE, ELEMENTWISE, REGULAR, INTEGER_UNIT})
    declared = {
        "test.distance": Op(
            "$lhs `,` $rhs attr-dict `:` type($result)",
            traits=elementwise | {COMMUTATIVE},
            noun="distance",
            integer=lambda i, v, op: i.greatest(i.subtract(v[0], v[1]), i.subtract(v[1], v[0])),
        ),
        "test.thrice": Op(
            "$src attr-dict `:` type($result)",
            traits=elementwise,
            integer=lambda i, v, op: i.add(i.multiply(v[0], i.constant(3)), i.constant(16)),
        ),
        "test.turn": Op(
            "$src attr-dict `:` type($src) `->` type($result)",
            traits=frozenset({PURE, VIEW}),
            lanes=_turned,
        ),
    }
    for name, op in declared.items():
        monkeypatch.setitem(OPERATIONS, name, op)


def _module(mask: str = "%inside") -> Module:
    """Build a kernel that stores `|3 * column + 16 - row|` through transposed pointers."""
    return parse_module(f"""
module {{
  tt.func public @kernel(%p: !tt.ptr<i32>, %n: i32) {{
    %rows = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
    %row = tt.expand_dims %rows {{axis = 1 : i32}} : tensor<4xi32> -> tensor<4x1xi32>
    %down = tt.broadcast %row : tensor<4x1xi32> -> {_TILE}
    %columns = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %scaled = test.thrice %columns : tensor<16xi32>
    %column = tt.expand_dims %scaled {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
    %across = tt.broadcast %column : tensor<1x16xi32> -> {_TILE}
    %distance = test.distance %across, %down : {_TILE}
    %sixtyfour = arith.constant dense<64> : {_TILE}
    %line = arith.muli %down, %sixtyfour : {_TILE}
    %index = arith.addi %line, %across : {_TILE}
    %turned = test.turn %index : {_TILE} -> {_TURNED}
    %value = test.turn %distance : {_TILE} -> {_TURNED}
    %base = tt.splat %p : !tt.ptr<i32> -> tensor<16x4x!tt.ptr<i32>>
    %pointers = tt.addptr %base, %turned : tensor<16x4x!tt.ptr<i32>>, {_TURNED}
    %limit = tt.splat %n : i32 -> {_TILE}
    %below = arith.cmpi slt, %down, %limit : {_TILE}
    %inside = test.turn %below : tensor<4x16xi1> -> tensor<16x4xi1>
    tt.store %pointers, %value, {mask} : tensor<16x4x!tt.ptr<i32>>
    tt.return
  }}
}}
""")


_ROWS = Symbol("n", "size", SIZE)


def _launch(elements: Expr) -> SymbolicCall:
    """Build a launch of one program on a tensor with this number of elements."""
    memory = HostMemory(0, torch.int32, elements, (elements,), (as_expr(1),), ZERO)
    signature = {"p": "*i32", "n": "i32"}
    grid = (as_expr(1),) * 3
    return SymbolicCall(
        SimpleNamespace(__name__="kernel"), grid, signature, {}, (memory, as_expr(_ROWS)), None
    )


def _value(module: Module, name: str) -> Value:
    values = [v for op in module.kernel.walk() for v in op.results if v.name == name]
    (value,) = values
    return value


def test_intervals() -> None:
    module = _module()
    intervals = Intervals(module.kernel, {}, (1,))
    assert intervals.of(_value(module, "scaled")) == (16, 61)
    assert intervals.of(_value(module, "distance")) == (13, 61)
    assert intervals.of(_value(module, "turned")) == (16, 253)


def test_an_exact_result_that_does_not_fit() -> None:
    module = parse_module("""
module {
  tt.func public @kernel(%p: !tt.ptr<i32>, %a: i32, %b: i32) {
    %distance = test.distance %a, %b : i32
    %q = tt.addptr %p, %distance : !tt.ptr<i32>, i32
    %v = tt.load %q : !tt.ptr<i32>
    tt.store %q, %v : !tt.ptr<i32>
    tt.return
  }
}
""")
    ends = {1: 2**31 - 1, 2: -(2**31)}
    intervals = Intervals(module.kernel, ends, (1,))
    assert intervals.exact == {_value(module, "distance").defining_op: (2**32 - 1, 2**32 - 1)}
    assert overflow.find(module, ends, (1,)) == {(1, 64)}
    assert not overflow.find(module, {1: 7, 2: -7}, (1,))


def test_strides() -> None:
    module = _module()
    assert static_strides(_value(module, "index")) == (64, 3)
    assert static_strides(_value(module, "turned")) == (3, 64)
    assert static_strides(_value(module, "distance")) == (None, None)
    assert memory_order(_value(module, "pointers")) is None


def test_regularity() -> None:
    module, regularity = _module(), Regularity()
    assert regularity.is_regular(_value(module, "pointers"))
    assert regularity.is_regular(_value(module, "distance"))
    assert not regularity.is_uniform(_value(module, "distance"))
    assert regularity.is_uniform(_value(module, "limit"))


def test_axis_info() -> None:
    module = _module()
    n = module.kernel.regions[0].entry.arguments[1]
    analysis = AxisInfoAnalysis({n: 8})
    down = analysis.of(_value(module, "down"))
    assert down.contiguity == (4, 1)
    assert down.constancy == (1, 16)
    across = analysis.of(_value(module, "across"))
    assert across.constancy == (4, 1)
    turned = analysis.of(_value(module, "turned"))
    line = analysis.of(_value(module, "line"))
    assert line.divisibility == (64, 64)
    assert turned.contiguity == (1, 1)
    assert analysis.of(_value(module, "limit")).divisibility == (8, 8)


@pytest.mark.parametrize(
    ("n", "size", "inside"), [(4, 4 * 254, True), (4, 4 * 253, False), (3, 4 * 190, True)]
)
def test_bounds_of_a_launch(n: int, size: int, inside: bool) -> None:
    module = _module()
    (store,) = (op for op in module.kernel.walk() if op.name == "tt.store")
    bounds = AccessBounds(module.kernel, (1,), {1: n}, {0: Memory(0, size, 0)})
    assert bounds.is_inside(store) is inside


@pytest.mark.parametrize(
    ("n", "elements", "events"),
    [(4, 254, []), (4, 253, ["oob_store"]), (3, 190, []), (3, 189, ["oob_store"])],
)
def test_evaluation_at_one_size(n: int, elements: int, events: list[str]) -> None:
    outcome = ConcreteRun(
        _launch(as_expr(elements)), _module("%inside"), {_ROWS: n}, [(0, 0, 0)], frozenset({0})
    ).run()
    assert [event.kind for event in outcome.events.values()] == events
    assert outcome.whole


@pytest.mark.parametrize(("spare", "problems"), [(0, []), (-1, ["oob_store"])])
def test_proof_for_all_sizes(spare: int, problems: list[str]) -> None:
    elements = 64 * as_expr(_ROWS) - 2 + spare
    space = Space({_ROWS: (1, 4)})
    unproved_accesses = unproved(_launch(elements), _module("%inside"), space, frozenset({0}))
    assert [problem.kind for problem in unproved_accesses] == problems


def test_a_possible_overflow_is_a_proof_obligation() -> None:
    module = parse_module("""
module {
  tt.func public @kernel(%p: !tt.ptr<i32>, %n: i32) {
    %thrice = test.thrice %n : i32
    %zero = arith.constant 0 : i32
    %distance = test.distance %thrice, %zero : i32
    %q = tt.addptr %p, %distance : !tt.ptr<i32>, i32
    %v = tt.load %q : !tt.ptr<i32>
    tt.return
  }
}
""")
    launch = _launch(as_expr(1 << 40))
    for largest, problems in (((2**31 - 17) // 3, set()), (2**31 - 1, {"int_overflow"})):
        obligations = unproved(launch, module, Space({_ROWS: (1, largest)}), frozenset())
        assert {problem.kind for problem in obligations} == problems


def test_the_oracle_of_the_fuzzer() -> None:
    tile = Type(I32, (4, 16))
    thrice = FuzzExpr("test.thrice", tile, (FuzzExpr("var", tile, attrs={"name": "x"}),))
    distance = FuzzExpr(
        "test.distance", tile, (thrice, FuzzExpr("number", Type(I32), (), {"value": 40}))
    )
    turned = FuzzExpr("test.turn", Type(I32, (16, 4)), (distance,))
    x = np.arange(-20, 44, dtype=np.int32).reshape(4, 16)
    x[0, 0] = 2**31 - 1
    frame = Frame({"x": x}, {}, {}, {}, (0, 0, 0), {}, lambda *_: ())
    with np.errstate(over="ignore"):
        # Only the result of an operation wraps to its type; intermediate values are exact.
        expected = np.abs((3 * x + 16).astype(np.int64) - 40).astype(np.int32)
    assert (evaluate(turned, frame) == expected.T).all()
    with pytest.raises(KeyError, match=r"test\.unknown"):
        evaluate(FuzzExpr("test.unknown", tile), frame)


def test_counts() -> None:
    plan = plan_counting(_module())
    (integers,) = {site.cost["integer"] for site in plan.computes if site.cost["integer"] == 64}
    assert integers == 64
    (access,) = plan.accesses
    assert access.lanes == 64


def test_masks_after_a_view() -> None:
    module = _module()
    below, inside = _value(module, "below"), _value(module, "inside")
    assert implies(inside, MovedMask(below).through(inside))
    assert not implies(below, MovedMask(below).through(inside))


def test_a_view_that_moves_axes_needs_no_lowering() -> None:
    def emitted(view: str) -> str:
        text = f"""
module {{
  tt.func public @kernel(%p: !tt.ptr<i32>) {{
    %rows = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
    %row = tt.expand_dims %rows {{axis = 1 : i32}} : tensor<4xi32> -> tensor<4x1xi32>
    %down = tt.broadcast %row : tensor<4x1xi32> -> {_TILE}
    %index = {view} : {_TILE} -> {_TURNED}
    %base = tt.splat %p : !tt.ptr<i32> -> tensor<16x4x!tt.ptr<i32>>
    %pointers = tt.addptr %base, %index : tensor<16x4x!tt.ptr<i32>>, {_TURNED}
    tt.store %pointers, %index : tensor<16x4x!tt.ptr<i32>>
    tt.return
  }}
}}
"""
        return emit_kernel(parse_module(text), Facts(), EmitOptions(lanes=16)).llvm_ir

    transposed = emitted("tt.trans %down {order = array<i32: 1, 0>}")
    assert emitted("test.turn %down") == transposed
