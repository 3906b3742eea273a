"""Answers of a candidate's process are checked before anything is computed with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from msgspec.structs import replace as replaced

from ttools.verifier.cases.tensors import TensorImage, image_of
from ttools.verifier.run.answers import (
    MalformedAnswerError,
    all_sizes_answer,
    kept_results,
    require_answer,
    require_dictionary,
)
from ttools.verifier.workers.results import described

X = torch.arange(6.0).view(2, 3)
SENT: dict[str, Any] = {"x": image_of(X), "scale": 2.0}


def answer(**fields: Any) -> dict[str, Any]:
    """Return an answer as a candidate's process sends it, with the given fields replaced."""
    plain: dict[str, Any] = {
        "call": 1,
        "launches": 1,
        "constants": [64],
        "kernels": ["k"],
        "findings": [],
        "results": [described("result", X, {}), described("count", 3, {})],
        "lazy": [],
        "operators": [["exp", 6, 0, 6]],
        "stored": {},
        "changed": [],
        "reshaped": [],
        "arguments": {"x": image_of(X).data, "scale": 2.0},
        "structure": ["cpu", b""],
    }
    return plain | fields


def with_image(**fields: Any) -> list[dict[str, Any]]:
    """Return a result whose elements are described in another way."""
    image = image_of(X)
    return [
        described("result", X, {})
        | {"image": TensorImage(replaced(image.spec, **fields), image.data)}
    ]


def test_an_answer_of_the_usual_form_is_accepted() -> None:
    require_answer(answer(), SENT)
    require_answer({"broken": "an error of ttools"}, SENT)
    failed = {"error": {"kind": "ValueError", "text": "no", "where": ""}}
    few = {key: answer()[key] for key in ("launches", "constants", "kernels", "findings")}
    require_answer(few | failed, SENT)
    require_answer(answer(arguments={"x": b"", "scale": 2.0}, reshaped=["x"]), SENT)


@pytest.mark.parametrize(
    "malformed",
    [
        7,
        {},
        answer(results=7),
        answer(results=[{"kind": "tensor"}]),
        answer(results=[{"name": "result", "kind": "list", "value": []}]),
        answer(results=with_image(shape=(2**40,), strides=(0,))),
        answer(results=with_image(strides=(0, 0))),
        answer(results=with_image(dtype="int32")),
        answer(results=[described("result", X, {}) | {"dtype": "device"}]),
        answer(results=[described("result", X, {}) | {"image": b""}]),
        answer(findings=["race"]),
        answer(findings=[{"kind": "race"}]),
        answer(operators=[["exp", "many"]]),
        answer(arguments={}),
        answer(arguments={"x": b"", "scale": 2.0}),
        answer(error={"text": "no"}),
        answer(replaced=[1]),
        answer(plan="none"),
        answer(launches=-1),
        answer(finishing=[1]),
        answer(constants=list(range(20_000))),
        answer(kernels=["k" * 200_000]),
    ],
)
def test_an_answer_of_another_form_is_rejected(malformed: Any) -> None:
    with pytest.raises(MalformedAnswerError, match="sent an answer of another form"):
        require_answer(malformed, SENT)


def test_entries_that_only_trusted_processes_send_are_left_out() -> None:
    others: dict[str, Any] = {"copied": 3, "moved": [[]], "tables": 7, "error": None}
    accepted = require_answer(answer(**others, unsupported=""), SENT)
    assert not accepted.keys() & {*others, "unsupported"}
    assert {key: accepted[key] for key in ("kernels", "results")} == {
        key: answer()[key] for key in ("kernels", "results")
    }


@pytest.mark.parametrize("malformed", [7, [1], {"broken": [1]}, {"not_loaded": 3}])
def test_an_answer_that_is_no_dictionary_is_rejected(malformed: Any) -> None:
    assert require_dictionary({}) == {}
    with pytest.raises(MalformedAnswerError):
        require_dictionary(malformed)


def test_answers_about_all_sizes_are_checked() -> None:
    finding = {"kind": "oob_load", "severity": "error", "message": "m", "kernel": "k", "where": ""}
    whole = {
        "launches": True,
        "findings": [finding | {"sizes": {"n": 3}, "bytes": 8}],
        "sentences": [],
        "is_late": False,
        "abstained": [],
        "assumptions": [],
    }
    ranges = {"n": (1, 9)}
    assert all_sizes_answer(whole, ranges).findings[0].sizes == {"n": 3}
    assert all_sizes_answer({"error": "no"}, ranges).error == "no"
    for malformed in (
        [1],
        whole | {"is_late": "x"},
        whole | {"assumptions": ["a" * 200_000]},
        whole | {"findings": [finding | {"sizes": {"n": 10}, "bytes": 8}]},
        whole | {"findings": [finding | {"sizes": {"n": 3, "m": 3}, "bytes": 8}]},
    ):
        with pytest.raises(MalformedAnswerError):
            all_sizes_answer(malformed, ranges)


def test_results_that_are_kept_are_checked() -> None:
    assert kept_results({"kept": [[1, [b"ab", b""]]]}) == [(1, [b"ab", b""])]
    for malformed in ({"kept": [[1]]}, {"kept": [[1, ["ab"]]]}, None):
        with pytest.raises(MalformedAnswerError):
            kept_results(malformed)
