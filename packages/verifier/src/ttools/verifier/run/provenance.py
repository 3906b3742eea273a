"""Checks that a Triton kernel computed a result, and not torch or other code such as C.

A wrapper may allocate, copy, view and convert tensors. It may also compute on few elements with
torch, and return results for empty inputs without a launch. The work of all operators of a call is
added up, because many small operators can compute a whole result.
"""

from __future__ import annotations

import math
from typing import Any

from ttools.verifier.cases.tensors import TensorImage, elements
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.workers.operators import LEAVING

#: Torch may compute on fewer elements than this share of a call's largest tensor, as preparation.
_SHARE = 0.25
#: Torch may always compute on fewer elements than this.
_FEWEST = 8
#: Number of elements that the written test of a failure assumes for one part of a result that has
#: several parts, such as `result[0]`.
_OF_A_PART = 4
#: Torch may compare or test fewer floats than this number of times the largest tensor. Many
#: comparisons with constants compute a function that has few values.
_MOST_TESTS = 6
#: Number of operators that a message names.
_MOST_NAMED = 3
_INTEGERS = ("int", "uint", "bool")


def work_of_torch(
    answer: dict[str, Any],
    right: dict[str, Any],
    images: list[TensorImage],
    *,
    is_right: bool,
) -> list[Mismatch]:
    """Return a failure if a result was not computed by a kernel.

    Args:
        answer: Answer of the candidate's process, with results.
        right: Answer of the reference's process.
        images: Arguments that are tensors.
        is_right: If True, the results are correct.
    """
    counts = [math.prod(image.shape) for image in images]
    results = [math.prod(part["shape"]) for part in right["given"] if part["kind"] == "tensor"]
    if 0 in counts or not results or max(results) == 0:
        return []
    largest = max([*counts, *results])
    are_integers = all(image.dtype.startswith(_INTEGERS) for image in images)
    needed = set(right["operators"])
    work: dict[str, int] = {}
    tested = 0
    for name, floats, compared, every in answer["operators"]:
        # Tests of floats and operators on integers count as preparation of a launch, unless the
        # reference uses the same operators.
        others = every if are_integers else compared
        work[name] = max(floats, others if name in needed else 0)
        tested += compared
    if tested >= _MOST_TESTS * largest:
        detail = f"torch compares or tests {tested} floats, in a call whose largest tensor has"
        names = [name for name, _, compared, _ in answer["operators"] if compared]
        return [_not_computed(f"{detail} {largest}", operators=[names, tested])]
    total = sum(work.values())
    if total >= max(_FEWEST, _SHARE * largest):
        names = [name for name in sorted(work, key=lambda each: -work[each]) if work[name]]
        detail = (
            f"torch {_verb(names)}: {_listed(names)} on {total} elements, in a call whose largest "
            f"tensor has {largest}"
        )
        return [_not_computed(detail, operators=[names, total])]
    for part, name in answer.get("copied", ()):
        if is_right:
            size = max(results) if "[" not in part else _OF_A_PART
            detail = f"{part} was computed by torch's `{name}`"
            return [_not_computed(detail, operators=[[name], size])]
    for part in answer["lazy"]:
        return [
            _not_computed(
                f"{part} is of a tensor subclass that computes its elements when they are read"
            )
        ]
    if is_right and not answer["launches"] and is_telling(right):
        return [_not_computed("no kernel was launched for these inputs", launches=False)]
    return []


def _verb(operators: list[str]) -> str:
    return "exports elements" if LEAVING.issuperset(operators) else "computes"


def _listed(operators: list[str]) -> str:
    named = ", ".join(f"`{name}`" for name in operators[:_MOST_NAMED])
    more = len(operators) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _not_computed(detail: str, **evidence: Any) -> Mismatch:
    return Mismatch("not_computed_by_kernel", detail, evidence)


def is_telling(right: dict[str, Any]) -> bool:
    """Return whether a result contains different values, so that it is not a constant."""
    for part in right["given"]:
        if part["kind"] == "tensor":
            value = elements(part["image"]).reshape(-1)
            if value.numel() > 1 and bool((value != value[0]).any()):
                return True
    return False
