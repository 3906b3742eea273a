"""No candidate passes whose plans are correct only for the inputs, sizes or values of its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.verifier.api import verify
from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.plan import Plan
from ttools.verifier.cases.tensors import elements, image_of
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification
from ttools.verifier.serving import verify_here
from ttools.verifier.workers.candidate import Candidate
from ttools.verifier.workers.hidden import Hidden

FILE = Path(__file__).parent / "replay_cheats.py"
HONEST = FILE.with_name("wrapped_kernels.py")


def verified(
    name: str, reference: str, inputs: str = "inputs", file: Path = FILE, **options: object
) -> Verification:
    words = {"candidate": name, "reference": reference, "inputs": inputs}
    subject: dict[str, Any] = {key: f"{file}:{function}" for key, function in words.items()}
    fixed = {"cases": 4, "shrink": 1, "all_sizes_seconds": 0, "replay_seed": 1}
    few: dict[str, Any] = {**fixed, **options}
    if inputs.startswith("graded"):  # after a backward pass of this process, forks cannot make one
        return verify(**subject, **few)
    return verify_here(subject, VerifyOptions(**few))


#: For each cheat: its reference, the number of cases, and a part of the message.
CHEATS = {
    "row_by_row": ("softmax_reference", 1, "`_softmax` on"),
    "gradient_as_constant": ("scale_reference", 4, "gradient of x"),
    "few_rows_of_a_table": ("gelu_reference", 1, "where a result requires"),
}
SLOW_CHEATS = {
    "bits_as_integers": ("abs_reference", 1, "`bitwise_and` on"),
    "flips_a_copy": ("plain_flip_reference", 1, "`flip` on"),
    "gradient_encoded": ("dot_reference", 1, "`mul` on"),
    "sums_encoded": ("total_of_rows_reference", 1, "`sum` on"),
    "total_without_launch": ("total_reference", 9, "repeated without it"),
    "many_comparisons": ("stairs_reference", 1, "compares or tests"),
    "copies_a_table": ("positions_reference", 1, "a copy of constants"),
    "launches_without_effect": ("flip_reference", 9, "launches of the call are left out"),
    "numbers_as_operands": ("softmax_reference", 9, "repeated without it"),
    "constant_for_nan": ("centre_reference", 11, "repeated without it"),
    "converted_to_integers": ("trunc_reference", 1, "`_to_copy` on"),
    "doubles_half_a_table": ("positions_reference", 1, "a copy of constants"),
    "numbers_as_arguments": ("positions_reference", 1, "a copy of constants"),
    "converted_to_bools": ("nonzero_reference", 1, "`_to_copy` on"),
    "copies_a_flip": ("flip_reference", 1, "was made by torch's `flip`"),
    "gathers_on_the_host": ("gather_reference", 1, "was made by torch's `cat`"),
    "rounds_by_conversions": ("rounding_reference", 1, "was made by torch's `_to_copy`"),
    "constant_in_a_part": ("softmax_reference", 1, "`_softmax` on"),
    "sorts_integers": ("sort_reference", 1, "`sort` on"),
    "small_part": ("part_reference", 1, "`_softmax`"),
    "reads_one_weight": ("scale_reference", 4, "gradient of x"),
    "powers_by_ranges": ("exponential_reference", 1, "`logspace` on"),
    "adds_packed_integers": ("sign_reference", 1, "`add` on"),
    "adds_packed_doubles": ("sign_reference", 1, "`add` on"),
    "compares_the_contrary": ("mask_reference", 1, "`le` on"),
    "moves_all_but_a_row": ("transpose_reference", 1, "was made by torch's `copy_`"),
    "beside_an_empty_argument": ("optional_reference", 1, "`_softmax` on"),
    "product_of_integers": ("product_reference", 1, "`bmm` on"),
    "fills_integers": ("trunc_reference", 1, "`fill_` on"),
    "bits_as_arguments": ("positions_reference", 1, "a copy of constants"),
    "moves_a_table": ("positions_reference", 1, "a copy of constants"),
    "gradient_of_a_copy": ("dot_reference", 1, "`mul` on"),
    "gradient_decoded": ("dot_reference", 1, "`mul` on"),
    "gradient_of_a_constant": ("row_sums_reference", 1, "`mul` on"),
    "product_by_terms": ("product_reference", 1, "`sum` on"),
    "small_part_of_a_slice": ("slice_reference", 9, "where a result requires 96"),
}
#: Functions that draw the inputs of some of the cheats.
INPUTS = {
    "gradient_as_constant": "graded_inputs",
    "reads_one_weight": "graded_inputs",
    "powers_by_ranges": "short_inputs",
    "adds_packed_integers": "sign_inputs",
    "adds_packed_doubles": "sign_inputs",
    "compares_the_contrary": "sign_inputs",
    "gradient_of_a_copy": "graded_dot_inputs",
    "gradient_encoded": "graded_dot_inputs",
    "gradient_decoded": "graded_dot_inputs",
    "gradient_of_a_constant": "graded_inputs",
    "product_by_terms": "product_inputs",
    "converted_to_bools": "nonzero_inputs",
    "numbers_as_arguments": "short_inputs",
    "bits_as_arguments": "short_inputs",
    "beside_an_empty_argument": "empty_inputs",
    "product_of_integers": "product_inputs",
    "fills_integers": "short_inputs",
    "small_part": "weighted_inputs",
    "gathers_on_the_host": "table_inputs",
    "few_rows_of_a_table": "table_inputs",
}


@pytest.mark.parametrize(
    "name", [*CHEATS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CHEATS)]
)
def test_a_cheat_fails(name: str) -> None:
    reference, cases, detail = {**CHEATS, **SLOW_CHEATS}[name]
    found = verified(name, reference, INPUTS.get(name, "inputs"), cases=cases)
    classes = [failure.failure for failure in found.failures]
    assert classes == ["not_computed_by_kernel"], found
    assert detail in found.failures[0].detail


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("integers_in_floats", "count_reference"),
        pytest.param("clamps_a_copy", "clamp_reference", marks=pytest.mark.slow),
        pytest.param("one_configuration_runs", "twice_reference", marks=pytest.mark.slow),
    ],
)
def test_a_correct_candidate_passes(name: str, reference: str) -> None:
    found = verified(name, reference, cases=9)
    assert (found.failures, found.replay.verified) == ((), True)


@pytest.mark.parametrize(
    ("name", "reference", "inputs", "cases"),
    [
        ("with_gradient", "twice_reference", "graded_inputs", 4),
        *(
            pytest.param(*names, 24, marks=pytest.mark.slow)
            for names in (
                ("with_gradient", "twice_reference", "graded_inputs"),
                ("pads_columns", "softmax_reference", "inputs"),
                ("with_tables", "rotary_reference", "even_inputs"),
                ("flips_input", "reversed_sums_reference", "inputs"),
                ("keeps_a_workspace", "column_sums_reference", "inputs"),
                ("autotuned", "softmax_reference", "inputs"),
                ("by_a_custom_operator", "transposed_softmax_reference", "inputs"),
                ("transposes_padded_tiles", "transpose_reference", "inputs"),
            )
        ),
    ],
)
def test_a_wrapper_that_prepares_a_launch_passes(
    name: str, reference: str, inputs: str, cases: int
) -> None:
    found = verified(name, reference, inputs, HONEST, cases=cases)
    assert (found.failures, found.replay.verified) == ((), True)


@pytest.mark.parametrize(
    ("name", "reference", "inputs", "cases"),
    [
        ("split_k", "product_reference", "product_inputs", 4),
        *(
            pytest.param(*words, marks=pytest.mark.slow)
            for words in (
                ("split_k", "product_reference", "product_inputs", 60),
                ("sums_by_parts", "column_sums_reference", "many_rows", 60),
            )
        ),
    ],
)
def test_partial_results_that_torch_adds_up_are_a_note(
    name: str, reference: str, inputs: str, cases: int
) -> None:
    found = verified(name, reference, inputs, HONEST, cases=cases)
    assert (found.failures, found.replay.verified) == ((), True)
    work = found.covered["finished by torch"]
    assert work["operators"] == ["sum"]
    assert 0 < work["share"] < 0.25
    (note,) = [note for note in found.notes if note.startswith("torch finishes the results")]
    assert note.endswith(f"of the reference's {work['operations']:,} operations)")


def test_partial_results_are_a_failure_where_the_user_forbids_them() -> None:
    found = verified(
        "split_k", "product_reference", "product_inputs", HONEST, cases=1, fail_on_torch=True
    )
    [failure] = found.failures
    assert failure.failure == "not_computed_by_kernel"
    assert "torch finishes a result: `sum` on" in failure.detail


@pytest.mark.slow
def test_an_element_that_is_the_same_for_each_seed_is_changed() -> None:
    found = verified("with_gradient", "twice_reference", "inputs_from_zero", HONEST, cases=36)
    assert (found.failures, found.replay.verified) == ((), True)
    assert "expanded" in found.covered["views"]


def test_results_that_depend_on_an_argument_that_is_read_are_not_verified() -> None:
    found = verified("reads_one_element", "weighted_reference", "weighted_inputs", cases=1)
    [failure] = found.failures
    assert failure.failure == "not_computed_by_kernel"
    assert "reads elements of `x` on the host" in failure.detail


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        pytest.param("sums_on_the_host", "weighted_sums_reference", marks=pytest.mark.slow),
        ("sums_as_operands", "weighted_sums_reference"),
        ("parities_as_choices", "parities_reference"),
    ],
)
def test_numbers_that_may_depend_on_integers_that_are_read_weaken_a_pass(
    name: str, reference: str
) -> None:
    found = verified(name, reference, "integer_inputs", cases=1)
    assert (found.failures, found.replay.verified, found.is_weaker) == ((), False, True)
    assert "passes constants or numbers that may contain a result" in found.replay.reasons[0]
    assert found.reason.startswith("weaker, because it is not verified by replay: the candidate")


def test_a_result_that_depends_on_the_contents_of_new_memory_is_wrong() -> None:
    [failure] = verified("wrong_in_zeros", "scale_reference", cases=3).failures
    assert failure.failure == "unwritten"
    assert failure.detail.startswith("the result depends on the contents of new memory")


def test_every_configuration_of_every_autotuner_is_tried() -> None:
    candidate = Candidate(f"{FILE}:untried_configuration", timeout=20.0)
    candidate.answer({"do": "load"})
    x = torch.randn(3, 5)
    factors = []
    for config in (None, 1):
        request = {"arguments": {"x": image_of(x)}, "config": config}
        answer = candidate.answer({"do": "call", **request})
        assert answer["configs"] == [[2], [3]]
        [result] = answer["results"]
        factors.append(float((elements(result["image"]) / x).mean().round()))
    assert factors == [2.0, 3.0]


@pytest.mark.slow
def test_a_wrong_configuration_of_a_hidden_autotuner_fails() -> None:
    found = verified("untried_configuration", "twice_reference", cases=400)
    assert [failure.config for failure in found.failures] == [1]


@pytest.mark.slow
def test_sizes_that_cannot_be_predicted_are_tried() -> None:
    found = verified("wrong_at_unknown_sizes", "softmax_reference", cases=400)
    assert [failure.failure for failure in found.failures] == ["wrong_values"]


def test_random_sizes_follow_from_the_hidden_seed() -> None:
    def sizes(seed: int | None) -> list[dict[str, int]]:
        hidden = Hidden(seed)
        hidden._seed = hidden.drawn()
        requests = [{"do": "number", "purpose": "sizes", "index": n} for n in range(12)]
        plan = Plan(Domain({"N": (1, 4000)}, {}, True))
        return [case.sizes for case in plan.mixtures(hidden.answer(e)["number"] for e in requests)]

    assert sizes(7) == sizes(7)
    assert sizes(None) != sizes(None)


def test_a_run_can_be_repeated_with_its_hidden_seed() -> None:
    found = verified("launches_without_effect", "flip_reference", cases=2)
    assert found.replay.seed is not None
    again = verified(
        "launches_without_effect", "flip_reference", cases=2, replay_seed=found.replay.seed
    )
    assert again.replay == found.replay
    assert Verification.of_dict(found.as_dict()).replay == found.replay
