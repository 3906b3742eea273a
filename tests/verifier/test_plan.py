"""Planned cases are in the domain and include its limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.verifier.cases.domain import Domain, entries_of, example_of_inputs
from ttools.verifier.cases.plan import Plan
from ttools.verifier.cases.values import changed
from ttools.verifier.strategies import arguments_of

_RANGES = st.tuples(st.integers(0, 50), st.integers(0, 5000)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.dictionaries(st.sampled_from("MNKB"), _RANGES, min_size=1))
def test_all_cases_are_in_the_domain(sizes: dict[str, tuple[int, int]]) -> None:
    plan = Plan(Domain(sizes, {"dtype": ["float32", "float16"]}, True))
    cases = [*plan.begin(), *plan.edges(), *plan.sequences(["x", "y"]), *plan.special_values()]
    cases += [*plan.views(["x", "y"]), *plan.blocks([16, 64]), *plan.mixtures(range(5))]
    cases += plan.configurations([[32], [16, 128]])
    for case in cases:
        for planned in (case, *case.after):
            assert all(sizes[n][0] <= value <= sizes[n][1] for n, value in planned.sizes.items())
            assert planned.choices["dtype"] in (0, 1)
    assert {name: low for name, (low, _) in sizes.items()} in [case.sizes for case in cases]
    assert len(cases) < 200


def test_sizes_on_both_sides_of_blocks_are_tried() -> None:
    plan = Plan(Domain({"N": (0, 1000)}, {}, True))
    tried = {case.sizes["N"] for case in plan.blocks([64])}
    assert {63, 64, 65, 129} <= tried


def test_other_orders_are_tried_at_sizes_with_several_programs() -> None:
    plan = Plan(Domain({"N": (0, 1000), "K": (0, 9)}, {}, True))
    tried = [case.sizes["N"] for case in plan.orders([4, 128]) if case.order]
    assert max(tried) == 257
    assert max(case.sizes["N"] for case in plan.orders([])) == 67


def test_domains_are_parsed() -> None:
    def inputs(M: Annotated[int, range(1, 9)], causal: bool, dtype: Literal["float32"], seed: int):
        return {}

    module = SimpleNamespace()
    assert entries_of(module, inputs) == {
        "M": (1, 8),
        "causal": [False, True],
        "dtype": ["float32"],
    }


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ({}, "`M` without a domain"),
        ({"M": (3, 1)}, "must be"),
        ({"M": 3}, "must be"),
        ({"M": (0, 3), "K": (0, 1)}, "`K`, which is not a parameter of inputs"),
    ],
)
def test_invalid_domains(domain: dict[str, Any], message: str) -> None:
    def inputs(M, seed):
        return {}

    with pytest.raises(UsageError, match=message):
        entries_of(SimpleNamespace(DOMAIN=domain), inputs)


def _inputs(M: Annotated[int, (1, 9)], seed: int) -> dict[str, int]:
    return {"m": M, "seed": seed}


@given(arguments_of(_inputs))
def test_arguments_are_drawn_from_the_domain(arguments: dict[str, int]) -> None:
    assert 1 <= arguments["m"] <= 9


def test_each_configuration_is_tried_around_its_own_blocks() -> None:
    plan = Plan(Domain({"N": (0, 3000)}, {"dtype": ["float32"]}, True))
    tried = {(case.config, case.sizes["N"]) for case in plan.configurations([[64, 1], [512]])}
    assert {(0, 129), (0, 64), (1, 1025), (1, 512)} <= tried


def test_one_argument_may_have_special_values_or_alias_another() -> None:
    plan = Plan(Domain({"N": (0, 1000)}, {}, True))
    tried = [(case.values, case.values_of) for case in plan.unequal_values(["x", "y"])]
    assert ("infinities", {"x": "zeros"}) in tried
    assert ("drawn", {"y": "nan"}) in tried
    assert list(plan.unequal_values(["x"])) == []
    again = [case for case in plan.sequences(["x", "y"]) if case.values_of == {"y": "negative"}]
    assert [(case.reuse, case.seed == case.after[0].seed) for case in again] == [(True, True)]
    (case,) = plan.shared([("x", "y")])
    assert case.shared == ("x", "y")


def test_gradients_of_one_argument_alone() -> None:
    plan = Plan(Domain({"N": (1, 40)}, {"grad": ["False", "True"]}, True))
    cases = list(plan.gradients(["x", "w"], ["result"], {"grad": 1}))
    assert [(case.only_grad, case.late_grad, case.choices) for case in cases] == [
        ("x", False, {"grad": 1}),
        ("w", False, {"grad": 1}),
        ("", True, {"grad": 1}),
        ("", False, {"grad": 1}),
    ]
    (late, repeated) = plan.gradients(["x"], ["result"], {})
    assert (late.late_grad, late.passes) == (True, "once")
    assert (repeated.late_grad, repeated.passes) == (False, "twice")
    assert not list(plan.gradients([], ["result[0]", "result[1]"], {}))


def test_gradients_of_one_result_alone() -> None:
    plan = Plan(Domain({"N": (1, 40)}, {"grad": ["False", "True"]}, True))
    cases = plan.gradients(["x"], ["result[0]", "result[1]"], {"grad": 1})
    alone = [(case.only_output, case.choices) for case in cases if case.only_output]
    assert alone == [("result[0]", {"grad": 1}), ("result[1]", {"grad": 1})]


def test_every_one_of_many_configurations_is_tried() -> None:
    plan = Plan(Domain({"N": (1, 4000)}, {}, True))
    cases = list(plan.configurations([[16]] * 20))
    assert {case.config for case in cases} == set(range(20))
    assert len(cases) <= 60


def test_elements_omitted_at_an_end_can_be_the_maximum() -> None:
    plan = Plan(Domain({"M": (1, 40), "N": (1, 900)}, {}, True))
    behind = [*plan.blocks([64]), *plan.configurations([[64]])]
    for size in (65, 129):
        values = {case.values for case in behind if case.sizes["N"] == size}
        assert values >= {"ascending", "descending"}
    assert any(case.config == 0 and case.sizes == {"M": 1, "N": 1} for case in behind)


def test_maxima_of_several_blocks_may_be_equal() -> None:
    plan = Plan(Domain({"M": (1, 40), "N": (1, 900)}, {}, True))
    values = {case.values for case in plan.blocks([64]) if case.sizes["N"] == 129}
    assert values >= {"equal", "ties"}


def test_graded_values_differ_in_equal_rows() -> None:
    scales = changed(torch.ones(12, 32), "graded", is_finite=True)
    assert scales.unique().numel() == scales.numel()
    assert bool(((scales >= 0.5) & (scales <= 1.5)).all())


def test_example_of_inputs() -> None:
    def reference(x: Any, w: Any, b: Any, y: Any, eps: float = 1e-5, **options: Any) -> None: ...

    tensors = ", ".join(f'"{name}": torch.randn(M, N)' for name in "xwb")
    assert example_of_inputs(reference, ["M", "N"], seeded=True) == (
        f"`def inputs(M, N, seed): return {{{tensors}, …}}` with "
        '`DOMAIN = {"M": (1, 1000), "N": (1, 1000)}`'
    )
    assert '{"x": torch.randn(n)}' in example_of_inputs(dict, [], seeded=False)
