"""Tests of the generator: which kernels it produces, and that their results are deterministic."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from ttools.fuzz import oracle, text
from ttools.fuzz.elements import ELEMENTS
from ttools.fuzz.generate.context import Features
from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.operations.table import OPERATIONS
from ttools.fuzz.program import (
    DescriptorStore,
    Expr,
    For,
    If,
    Program,
    Store,
    While,
    all_expressions,
    statements,
)

_COUNT = 500


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return [
        generate(seed, Features(in_order_cat=True, atomic_loads=True)) for seed in range(_COUNT)
    ]


def _expressions(program: Program) -> Iterator[Expr]:
    yield from all_expressions(program.body)
    for helper in program.helpers:
        yield from all_expressions(helper.body)


def test_a_seed_always_generates_the_same_kernel() -> None:
    for seed in range(20):
        assert text.module_text(generate(seed)) == text.module_text(generate(seed))
    assert len({text.module_text(generate(seed)) for seed in range(20)}) == 20


def test_kernels_are_valid_python(programs: list[Program]) -> None:
    for program in programs:
        ast.parse(text.module_text(program))


def test_kernels_stay_in_their_buffers_and_are_deterministic(programs: list[Program]) -> None:
    for program in programs[:150]:
        oracle.run(program)


def test_every_operation_is_generated(programs: list[Program]) -> None:
    reached = Counter(e.op for program in programs for e in _expressions(program))
    assert set(OPERATIONS) - set(reached) <= {"call"}
    calls = sum(e.op == "call" for p in programs for e in all_expressions(p.body))
    assert calls > 10


def test_lanes_move_along_every_axis(programs: list[Program]) -> None:
    axes: dict[str, set[tuple[int, int]]] = {}
    for program in programs:
        for e in _expressions(program):
            if "axis" in e.attrs and e.args:
                rank = len(e.args[0].type.shape)
                axes.setdefault(e.op, set()).add(
                    (rank, -1 if e.attrs["axis"] is None else e.attrs["axis"])
                )
    for op in ("flip", "gather", "named_reduce", "cumulative", "scan", "reduce", "expand_dims"):
        assert {(1, 0), (2, 0), (2, 1)} <= axes[op], op
    for op in ("flip", "gather", "named_reduce"):
        assert {(3, 0), (3, 1), (3, 2)} <= axes[op], op
    assert {(1, -1), (2, -1)} <= axes["named_reduce"]


def test_moved_lanes_are_moved_again(programs: list[Program]) -> None:
    moves = {"flip", "permute", "reshape", "join", "broadcast_to", "gather", "expand_dims"}
    pairs = {
        (e.op, e.args[0].op)
        for program in programs
        for e in _expressions(program)
        if e.op in moves and e.args and e.args[0].op in moves
    }
    assert ("permute", "flip") in pairs
    assert len(pairs) > 30


def test_every_type_is_loaded_stored_and_cast_to(programs: list[Program]) -> None:
    loaded = {b.element for p in programs for b in p.buffers if b.role == "in"}
    stored = {b.element for p in programs for b in p.buffers if b.role == "out"}
    cast = {e.type.element for p in programs for e in _expressions(p) if e.op == "cast"}
    assert loaded == stored == set(ELEMENTS)
    assert cast == set(ELEMENTS)


def _one_lane_bounds(program: Program) -> Iterator[int]:
    """Yield constants congruent to 1 modulo 16 in the masks of stores of types below 32 bits.

    They are candidates for bounds after which a vector of 16 lanes has one lane left.
    """
    constant = {p.name: p.value for p in program.parameters if p.constexpr or p.value == 1}
    for statement in statements(program.body):
        if not isinstance(statement, Store) or statement.mask is None:
            continue
        if program.buffer(statement.pointer.type.buffer).element.bits >= 32:
            continue
        for e in statement.mask.walk():
            value = e.attrs.get("value", constant.get(e.attrs.get("name", "")))
            if isinstance(value, int) and e.op in ("number", "parameter") and value % 16 == 1:
                yield value


def test_masks_end_in_single_lanes(programs: list[Program]) -> None:
    bounds = Counter(v for program in programs for v in _one_lane_bounds(program))
    assert sum(bounds.values()) > _COUNT / 20
    assert {1, 17} <= set(bounds)


def test_bounds_have_many_residues(programs: list[Program]) -> None:
    constants = {
        e.attrs["value"] % 64
        for p in programs
        for s in statements(p.body)
        if isinstance(s, Store) and s.mask is not None
        for e in s.mask.walk()
        if e.op == "number"
    }
    parameters = {p.value % 64 for program in programs for p in program.parameters}
    assert len(constants) > 30
    assert len(parameters) > 40


def test_every_statement_is_generated(programs: list[Program]) -> None:
    counts = Counter(type(s) for program in programs for s in statements(program.body))
    assert all(counts[kind] > 10 for kind in (For, While, If, DescriptorStore))
    loops = [s for p in programs for s in statements(p.body) if isinstance(s, For)]
    assert any(loop.static for loop in loops)
    steps = [p.value for program in programs for p in program.parameters]
    assert any(value < 0 for value in steps)
    assert {len(p.grid) for p in programs} == {1, 2, 3}


def test_small_and_deep_shapes_are_generated(programs: list[Program]) -> None:
    shapes = {e.type.shape for p in programs for e in _expressions(p)}
    assert {(), (1,), (2,), (1, 1)} <= shapes
    assert {len(shape) for shape in shapes} == {0, 1, 2, 3, 4, 5}


def test_kernels_for_a_gpu_avoid_what_is_undefined_there() -> None:
    for seed in range(100):
        program = generate(seed, Features(gpu=True))
        loaded = {e.args[0].type.buffer for e in _expressions(program) if e.op == "load"}
        assert not any(b.role == "both" and b.name in loaded for b in program.buffers)
        for e in _expressions(program):
            if e.op == "dot":
                assert min(*e.type.shape, e.args[0].type.shape[-1]) >= 16


def test_numbers_without_bounds_can_be_shifted() -> None:
    assert generate(779575436, Features(gpu=True)).buffers


def test_linear_recurrences_have_operands_of_one_type() -> None:
    recurrences = [
        e
        for seed in range(400)
        for e in _expressions(generate(seed))
        if e.attrs.get("combine") == "f_lin"
    ]
    assert recurrences
    assert all(len({arg.type for arg in e.args}) == 1 for e in recurrences)
