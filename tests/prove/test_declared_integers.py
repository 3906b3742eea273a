"""Symbolic and concrete evaluation agree with the declarations of operations, Python and NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ttools.ir import IntegerType, Module, Operation, TensorType, Value, shape_of
from ttools.ir.dialects import OPERATIONS, Op
from ttools.ir.dialects.coordinates import Lanes as LaneMap
from ttools.ir.dialects.integers import Evaluation, wrapped
from ttools.ir.dialects.traits import ELEMENTWISE, PURE, VIEW
from ttools.ir.expr import SIZE, Symbol, as_expr, evaluate
from ttools.ir.parser import parse_module
from ttools.prove.algebra.proofs import Space
from ttools.prove.concrete import operations, run  # noqa: F401 - registers the rules
from ttools.prove.concrete.integers import computed
from ttools.prove.concrete.lanes import Lanes
from ttools.prove.host.launches import SymbolicCall
from ttools.prove.symbolic.integers import computed as symbolic_computed
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import AnyValue, Logic, Number, compare, number

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_BINARY = [
    name
    for name, op in OPERATIONS.items()
    if op.integer is not None
    and ELEMENTWISE in op.traits
    and op.operand_names[:2] in (("lhs", "rhs"), ("x", "y"))
    and name != "arith.cmpf"
]
_PROGRAMS = 4


def integers(width: int) -> st.SearchStrategy[int]:
    """Draw numbers of a type, often close to its limits."""
    low, high = (0, 1) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    return st.sampled_from((low, high, 0, 1, high // 2)) | st.integers(low, high)


def _operation(name: str, operands: Sequence[int], result: int, lanes: int = 0) -> Operation:
    def of(width: int) -> Any:
        return TensorType((lanes,), IntegerType(width)) if lanes else IntegerType(width)

    op = Operation(name)
    op.operands = [Value(of(width), f"operand{n}", op, n) for n, width in enumerate(operands)]
    op.results = [Value(of(result), "result", op, 0)]
    return op


def _computed(op: Operation, operands: Sequence[Sequence[int]]) -> Lanes:
    """Return the result for operands with one value per program."""
    data = [
        np.array(numbers, bool if v.type == IntegerType(1) else np.int64)
        for v, numbers in zip(op.operands, operands, strict=True)
    ]
    values = {v: Lanes(array) for v, array in zip(op.operands, data, strict=True)}
    state: Any = SimpleNamespace(count=len(data[0]), get=values.__getitem__)
    with np.errstate(all="ignore"):
        result = computed(state, op)
    assert result is not None
    return result


def _is_defined(name: str, width: int, second: int) -> bool:
    if "arith.sh" in name:
        return 0 <= second < width
    return second != 0 or not ("div" in name or "rem" in name)


@pytest.mark.parametrize("name", _BINARY)
@given(width=st.sampled_from((1, 8, 32, 64)), data=st.data())
def test_lanes_agree_with_python(name: str, width: int, data: st.DataObject) -> None:
    op = _operation(name, (width, width), 1 if name == "arith.cmpi" else width)
    if name == "arith.cmpi":
        op.attributes["predicate"] = data.draw(st.sampled_from(_PREDICATES))
    shifts = st.integers(0, width - 1)
    second = shifts if "arith.sh" in name else integers(width)
    pairs = data.draw(st.lists(st.tuples(integers(width), second), min_size=1, max_size=_PROGRAMS))
    defined = [_is_defined(name, width, y) for _, y in pairs]
    assume(any(defined))
    result = _computed(op, list(zip(*pairs, strict=True)))
    meaning = OPERATIONS[name].integer
    assert meaning is not None
    for n, pair in enumerate(pairs):
        unknown = result.unknown is not None and bool(result.unknown[n])
        assert unknown == (not defined[n])
        if defined[n]:
            exact = meaning(Evaluation(), pair, op)
            assert int(result.data[n]) == wrapped(exact, 1 if name == "arith.cmpi" else width)


@pytest.mark.parametrize(
    ("name", "width", "result"),
    [
        ("arith.extsi", 1, 32),
        ("arith.extsi", 8, 64),
        ("arith.extui", 1, 32),
        ("arith.extui", 32, 64),
        ("arith.trunci", 64, 32),
        ("arith.trunci", 32, 1),
        ("math.absi", 32, 32),
        ("math.absi", 64, 64),
    ],
)
@given(data=st.data())
def test_lanes_of_one_operand(name: str, width: int, result: int, data: st.DataObject) -> None:
    op = _operation(name, (width,), result)
    values = data.draw(st.lists(integers(width), min_size=1, max_size=_PROGRAMS))
    meaning = OPERATIONS[name].integer
    assert meaning is not None
    expected = [wrapped(meaning(Evaluation(), (value,), op), result) for value in values]
    assert list(_computed(op, [values]).data) == expected


def test_an_overflow_is_followed_to_a_quotient_and_ends_at_a_remainder() -> None:
    product = _operation("arith.muli", (32, 32), 32)
    wide = _computed(product, ([1 << 20, 3], [1 << 20, 3]))
    assert list(wide.exact) == [1 << 40, 9]
    assert [(op, list(lanes)) for op, lanes in wide.wraps] == [(product, [True, False])]
    for name, expected in (("arith.divsi", 1), ("arith.remsi", 0)):
        op = _operation(name, (32, 32), 32)
        values = dict(zip(op.operands, (wide, Lanes(np.array([5, 5]))), strict=True))
        state: Any = SimpleNamespace(count=2, get=values.__getitem__)
        result = computed(state, op)
        assert result is not None
        assert len(result.wraps) == expected


X, Y = (Symbol(name, "size", SIZE) for name in "xy")


def _kernel(op: Operation, ranges: Mapping[Symbol, tuple[int, int]]) -> State:
    """Return the state of an evaluation whose operands are sizes."""
    space = Space(ranges)
    launch = SymbolicCall(None, (as_expr(1),) * 3, {}, {}, (), None)
    kernel = State(launch, Module({}), space, frozenset())
    for value, symbol in zip(op.operands, (X, Y), strict=False):
        is_condition = value.type == IntegerType(1)
        size = number(as_expr(symbol))
        kernel.values[value] = compare("ge", size, number(1)) if is_condition else size
    return kernel


def _holds(condition: Logic, point: Mapping[Symbol, int]) -> bool:
    if condition.comparison is not None:
        left, right = (
            evaluate(side.cases[0].value, point)
            for side in (condition.comparison.left, condition.comparison.right)
        )
        return left >= right if condition.comparison.relation == "ge" else left == right
    parts = [_holds(part, point) for part in condition.parts]
    match condition.kind:
        case "and":
            return all(parts)
        case "or":
            return any(parts)
        case "not":
            return not parts[0]
    assert condition.kind == "true"
    return True


def _numbers(value: AnyValue, point: Mapping[Symbol, int]) -> set[int]:
    """Return the possible numbers of a value at a point; none if its obligations are not met."""
    if isinstance(value, Logic):
        return {int(_holds(value, point))}
    assert isinstance(value, Number)
    numbers = set()
    for case in value.cases:
        applies = all(evaluate(fact.expr, point) >= 0 for fact in case.when)
        met = all(evaluate(goal, point) >= 0 for need in case.needs for goal in need.goals)
        if applies and met and not any(s.kind == "data" for s in case.value.base_symbols()):
            numbers.add(evaluate(case.value, point))
    return numbers


@pytest.mark.parametrize("name", [*_BINARY, "math.absi", "arith.extsi", "arith.extui"])
@given(data=st.data())
def test_expressions_agree_with_python(name: str, data: st.DataObject) -> None:
    count = 2 if name in _BINARY else 1
    width = data.draw(st.sampled_from((1, 8))) if name.startswith("arith.ext") else 8
    result = {"arith.cmpi": 1, "arith.extsi": 16, "arith.extui": 16}.get(name, 8)
    op = _operation(name, (width,) * count, result)
    if name == "arith.cmpi":
        op.attributes["predicate"] = data.draw(st.sampled_from(_PREDICATES))
    ranges, point = {}, {}
    for symbol in (X, Y)[:count]:
        low, middle, high = sorted(data.draw(st.tuples(*[integers(width)] * 3)))
        point[symbol] = middle
        ranges[symbol] = (low, high) if data.draw(st.booleans()) else (middle, middle)
    second = point.get(Y, 1)
    assume(_is_defined(name, width, second))
    kernel = _kernel(op, ranges)
    if Y in ranges and ranges[Y] == (second, second):
        kernel.values[op.operands[1]] = number(second)
    value = symbolic_computed(kernel, op)
    meaning = OPERATIONS[name].integer
    assert meaning is not None
    exact = meaning(Evaluation(), [*point.values()], op)
    expected = wrapped(exact, 1 if name == "arith.cmpi" else result)
    assert value is None or _numbers(value, point) <= {expected}


# `x | 7` is a sum only if the low bits of `x` are 0.
@pytest.mark.parametrize("name", sorted({*_BINARY, "math.absi"} - {"arith.ori"}))
def test_expressions_of_sizes_are_known(name: str) -> None:
    op = _operation(name, (32, 32)[: 2 if name in _BINARY else 1], 1 if "cmpi" in name else 32)
    op.attributes["predicate"] = "ult"
    kernel = _kernel(op, {X: (64, 96)})
    for operand in op.operands[1:]:
        kernel.values[operand] = number(7)
    value = symbolic_computed(kernel, op)
    meaning = OPERATIONS[name].integer
    assert value is not None
    assert meaning is not None
    for x in range(64, 97):
        exact = int(meaning(Evaluation(), (x, 7), op))
        assert _numbers(value, {X: x}) == {exact}


@pytest.mark.parametrize("name", ["tt.get_program_id", "tt.get_num_programs"])
def test_impossible_program_indices_are_not_negative(name: str) -> None:
    op = _operation(name, (), 32)
    op.attributes["axis"] = 0
    state: Any = SimpleNamespace(
        count=1, programs=np.array([[(1 << 31) + 1, 0, 0]]), grid=[(1 << 31) + 1, 1, 1]
    )
    result = computed(state, op)
    assert result is not None
    assert result.data.tolist() == [(1 << 31) + 1]


@pytest.mark.parametrize(
    "combine",
    [
        *("addi", "maxsi", "xori"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("muli", "minui", "andi")),
    ],
)
@pytest.mark.parametrize("kind", ["reduce", "scan", "reverse"])
@given(data=st.data())
def test_integers_are_combined(combine: str, kind: str, data: st.DataObject) -> None:
    extent, reverse = data.draw(st.sampled_from((1, 2, 8))), kind == "reverse"
    scan = kind != "reduce"
    attributes = f"axis = 0 : i32{', reverse = ' + str(reverse).lower() if scan else ''}"
    tile = f"tensor<{extent}xi32>"
    name = "scan" if scan else "reduce"
    module = parse_module(f"""
module {{
  tt.func public @kernel(%t: {tile}) {{
    %r = "tt.{name}"(%t) <{{{attributes}}}> ({{
    ^bb0(%a: i32, %b: i32):
      %c = arith.{combine} %a, %b : i32
      tt.{name}.return %c : i32
    }}) : ({tile}) -> {tile if scan else "i32"}
    tt.return
  }}
}}
""")
    op = module.kernel.regions[0].entry.operations[0]
    elements = data.draw(st.lists(integers(32), min_size=extent, max_size=extent))
    state: Any = SimpleNamespace(count=1, get=lambda value: Lanes(np.array([elements])))
    (result,) = operations.evaluate(state, op)
    (inner, _) = op.regions[0].entry.operations
    meaning = OPERATIONS[f"arith.{combine}"].integer
    assert meaning is not None
    partial: list[int] = []
    for element in reversed(elements) if reverse else elements:
        before = (partial[-1], element) if partial else None
        partial.append(wrapped(meaning(Evaluation(), before, inner), 32) if before else element)
    expected = partial[::-1] if reverse else partial
    assert result.data.tolist() == [expected if scan else expected[-1]]


_MOVES: list[tuple[str, str, str, Callable[[Any], Sequence[Any]]]] = [
    ("tt.splat %t", "i32", "4x2xi32", lambda t: [np.broadcast_to(t, (4, 2))]),
    ("tt.unsplat %t", "1x1xi32", "", lambda t: [t[0, 0]]),
    ("tt.expand_dims %t {axis = 1 : i32}", "4x2xi32", "4x1x2xi32", lambda t: [t[:, None]]),
    ("tt.broadcast %t", "4x1xi32", "4x8xi32", lambda t: [np.broadcast_to(t, (4, 8))]),
    (
        "tt.trans %t {order = array<i32: 2, 0, 1>}",
        "2x4x8xi32",
        "8x2x4xi32",
        lambda t: [np.transpose(t, (2, 0, 1))],
    ),
    ("tt.reshape %t", "4x8xi32", "8x4xi32", lambda t: [t.reshape(8, 4)]),
    ("tt.reshape %t", "1x4x8xi32", "4x1x8xi32", lambda t: [t.reshape(4, 1, 8)]),
    ("tt.join %t, %t", "4xi32", "4x2xi32", lambda t: [np.stack((t, t), -1)]),
    ("tt.split %t", "4x2xi32", "4xi32", lambda t: [t[:, 0], t[:, 1]]),
    ("test.diagonal %t", "4x4xi32", "4xi32", lambda t: [np.diagonal(t)]),
]


@pytest.mark.parametrize(
    ("text", "before", "after", "expected"), _MOVES, ids=[move[0].split()[0] for move in _MOVES]
)
def test_lanes_move_as_in_numpy(
    text: str,
    before: str,
    after: str,
    expected: Callable[[Any], Sequence[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diagonal = Op(
        "$src attr-dict `:` type($src) `->` type($result)",
        traits=frozenset({PURE, VIEW}),
        lanes=lambda view: (LaneMap(0, (0, 0)),),
    )
    monkeypatch.setitem(OPERATIONS, "test.diagonal", diagonal)
    source, target = (f"tensor<{t}>" if "x" in t else t for t in (before, after))
    results = "%r, %q" if "split" in text else "%r"
    module = parse_module(
        f"""
module {{
  tt.func public @kernel(%t: {source}) {{
    {results} = {text} : {source}{f" -> {target}" if target else ""}
    tt.return
  }}
}}
""".replace("%r:2", "%r, %q")
    )
    op = module.kernel.regions[0].entry.operations[0]
    shape = shape_of(op.operands[0].type)
    data = np.arange(3 * math.prod(shape)).reshape(3, *shape)
    lost = Operation("arith.muli")
    value = Lanes(data, data + 1, ((lost, data % 3 == 0),), data % 5 == 0)
    state: Any = SimpleNamespace(count=3, get=lambda _: value)
    moved = operations.evaluate(state, op)
    for n in range(3):
        for result, tile in zip(moved, expected(data[n]), strict=True):
            arrays = (result.data, result.exact - 1, result.unknown, result.wraps[0][1])
            wanted = (tile, tile, tile % 5 == 0, tile % 3 == 0)
            for array, numbers in zip(arrays, wanted, strict=True):
                assert (np.broadcast_to(array[n], numbers.shape) == numbers).all()


def test_lanes_whose_order_is_not_specified_are_unknown() -> None:
    module = parse_module("""
module {
  tt.func public @kernel(%t: tensor<8xi32>) {
    %r = tt.cat %t, %t : tensor<8xi32> -> tensor<16xi32>
    tt.return
  }
}
""")
    state: Any = SimpleNamespace(count=1, get=lambda _: Lanes(np.arange(8).reshape(1, 8)))
    (result,) = operations.evaluate(state, module.kernel.regions[0].entry.operations[0])
    assert result.unknown.all()
