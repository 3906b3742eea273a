"""Tests of guarded accesses, compared with NumPy: outputs, memory, counts and witnesses."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from access_forms import ELEMENTS, FORMS, ORIGIN, Form, fresh_memory, run_naively
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from observing import observe, part_of

from ttools.interpreter import interpret

ACCESSES = ("load", "store", "atomic", "swap")
#: Start and end of the accessible elements, in tenths of the range that the kernel accesses.
CUTS = ((0, 10), (0, 7), (3, 10), (4, 6), (5, 5))
ENGINES: tuple[dict[str, Any], ...] = (
    {},
    {"threads": 2},
    {"lanes": 8},
    {"lanes": 4},
    {"schedule": "materialised"},
)


def cases() -> list[Any]:
    parameters = []
    for name, form in FORMS.items():
        for access in ACCESSES:
            if access == "swap" and form.mask:
                continue  # Triton's compare-and-swap has no mask
            if form.collides and access in ("store", "swap"):
                continue  # the order of the lanes is undefined
            parameters.append(pytest.param(form, access, id=f"{name}-{access}"))
    return parameters


def bounds(form: Form, cut: tuple[int, int]) -> tuple[int, int]:
    """Return the start and end of the elements that the kernel may access."""
    used = (form.offsets + ORIGIN)[form.active & (abs(form.offsets) < ORIGIN * 3)]
    if not used.size:
        return ORIGIN, ORIGIN + 10
    low, high = int(used.min()), int(used.max()) + 1
    return low + (high - low) * cut[0] // 10, low + (high - low) * cut[1] // 10


def check(form: Form, access: str, cut: tuple[int, int], **engine: Any) -> None:
    low, high = bounds(form, cut)
    memory, out = fresh_memory(access), form.empty_out()
    right, right_out = memory.numpy().copy(), out.numpy().copy()
    observed = observe(
        lambda: form.launch(access, memory, out),
        regions={"x_ptr": part_of(memory, low, high)},
        **engine,
    )
    inside = (form.offsets + ORIGIN >= low) & (form.offsets + ORIGIN < high)
    run_naively(form, access, right, right_out, form.active & inside)
    np.testing.assert_array_equal(memory.numpy(), right)
    np.testing.assert_array_equal(out.numpy(), right_out)
    failed = form.active & ~inside
    if not failed.any():
        assert observed.counts == []
        return
    count = observed.only
    assert count.lanes == failed.sum()
    assert count.programs == failed.any(axis=1).sum()
    witness = count.witness
    assert witness.test == "storage"
    assert witness.site.kind == {"swap": "atomic"}.get(access, access)
    assert witness.site.parameter == 0
    assert witness.program == failed.any(axis=1).argmax()
    assert failed[witness.program, witness.lane]
    if len(form.shape) < 2:
        assert witness.lane == failed[witness.program].argmax()
    offset = form.offsets[witness.program, witness.lane]
    assert witness.address == (memory.data_ptr() + 4 * (ORIGIN + int(offset))) % 2**64
    assert witness.iterations == ()
    shown = dict(witness.values)
    assert shown
    parameters = {3: "n", 4: "a", 5: "b"}
    for name, value in shown.items():
        name = parameters[int(name[1:])] if name.startswith("%") else name
        assert value == form.named(name, witness.program, witness.lane), name


@pytest.mark.parametrize(("form", "access"), cases())
def test_lanes_outside_do_not_access_memory_and_are_counted(form: Form, access: str) -> None:
    for cut in CUTS:
        check(form, access, cut)


_steps = st.sampled_from([0, 1, 1, -1, 2, 7, -12, 40])


@settings(max_examples=12, deadline=None)
@given(_steps, _steps, st.integers(-200, 200), st.sampled_from(["load", "atomic"]), st.data())
def test_tiles_with_constant_strides(
    row: int, column: int, first: int, access: str, data: st.DataObject
) -> None:
    """Access tiles with constant strides, which are checked as a whole unless they are outside."""
    step = data.draw(st.sampled_from([16, 3, -5]))
    form = Form(
        f"pid * {step} + rows * {row} + {first} + cols * {column}",
        data.draw(st.sampled_from(["", "cols < n"])),
        shape=(8, 32),
        numbers={"n": 20},
    )
    assume(-ORIGIN <= form.offsets.min() <= form.offsets.max() < ELEMENTS - ORIGIN)
    for cut in ((0, 10), (0, 7), (4, 6)):
        check(form, access, cut, lanes=data.draw(st.sampled_from([4, 8, 16])))


_compared = st.tuples(
    st.sampled_from(["rows", "cols", "cols + 3", "5 - cols", "rows - a", "pid", "rows + cols"]),
    st.sampled_from(["<", "<=", ">", ">=", "!="]),
    st.sampled_from(["n", "b", "4", "n - 40"]),
).map(lambda parts: f"({' '.join(parts)})")


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["a", "n", "-n", "11", "0"]),
    st.sampled_from(["1", "1", "b", "-2"]),
    st.lists(_compared, max_size=3).map(" & ".join),
    st.fixed_dictionaries({"a": st.integers(-30, 40), "n": st.integers(-2, 30)}),
    st.sampled_from(["load", "atomic"]),
    st.sampled_from([4, 8, 16]),
)
def test_tiles_with_strides_from_arguments(
    row: str, column: str, mask: str, numbers: dict[str, int], access: str, lanes: int
) -> None:
    """Access tiles with strides and masks that depend on arguments, including empty masks."""
    numbers = {**numbers, "b": 3}
    index = f"pid * 7 + rows * {row} + cols * {column}"
    form = Form(index, mask, shape=(4, 32), numbers=numbers)
    assume(-ORIGIN <= form.offsets.min() <= form.offsets.max() < ELEMENTS - ORIGIN)
    for cut in ((0, 10), (1, 8)):
        check(form, access, cut, lanes=lanes)


@pytest.mark.parametrize("engine", ENGINES[1:], ids=lambda e: "-".join(map(str, *e.items())))
@pytest.mark.parametrize("access", ["load", "store", "atomic"])
@pytest.mark.parametrize(
    "name", ["tail", "strided", "tile_masked", "tile_transposed", "gather_masked", "wrapped"]
)
def test_results_do_not_depend_on_vectors_schedules_and_threads(
    name: str, access: str, engine: dict[str, Any]
) -> None:
    form = FORMS[name]
    if not (form.collides and access == "store"):
        check(form, access, (2, 8), **engine)


@pytest.mark.parametrize(("form", "access"), [c for c in cases() if not c.values[0].wild])
def test_guards_do_not_change_accesses_inside(form: Form, access: str) -> None:
    runs = []
    for observed in (False, True):
        memory, out = fresh_memory(access), form.empty_out()
        launch = functools.partial(form.launch, access, memory, out)
        if observed:
            regions = {"x_ptr": part_of(memory, 0, ELEMENTS)}
            assert observe(launch, regions=regions).counts == []
        else:
            with interpret(threads=1):
                launch()
        runs.append((memory, out))
    (memory, out), (guarded_memory, guarded_out) = runs
    assert torch.equal(memory, guarded_memory)
    assert torch.equal(out, guarded_out)
    assert memory.numel() == ELEMENTS
