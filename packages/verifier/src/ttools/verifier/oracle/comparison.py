"""Compares a result with the reference's result, within the rounding errors of a sound algorithm.

The tolerance of an element is a relative error times a scale. The relative error is several hundred
rounding errors for f32, and two rounding errors for narrower types (`RELATIVE`). The scale is the
absolute value of the element or its spread (see `evaluation`), whichever is larger. For example, an
f32 element whose correct value is 2.0 has a tolerance of at least 1.5 * 3e-5 * 2.0 = 9e-5. An
element is correct if it agrees with the reference evaluated in double precision or with the
reference evaluated in its own types.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ttools.verifier.cases.tensors import elements
from ttools.verifier.oracle.precision import real_type
from ttools.verifier.workers.results import GRADIENT

#: Relative errors by type: for f32, the error of sums of several thousand terms in any order; for
#: narrower types, two rounding errors.
RELATIVE = {
    torch.float64: 1e-12,
    torch.float32: 3e-5,
    torch.float16: 2.2e-3,
    torch.bfloat16: 1.7e-2,
}
#: Relative error for one-byte types, in units of the distance between neighbouring values: a value
#: may be rounded to either neighbour.
_NARROW = 1.04
#: Factor by which tolerances exceed the relative errors times the scale.
_SLACK = 1.5
#: Factor by which the change of an integer may exceed the largest change that was observed.
_SLACK_OF_INTEGERS = 4.0
#: Share of a result's largest element below which elements count as small. Small elements may have
#: the rounding errors of the terms of which they consist, see `evaluation`. If these are unknown,
#: the tolerance scale of each element is increased by this share.
OF_LARGEST = 2.0**-6


@dataclass(frozen=True)
class Mismatch:
    """Elements of a result that are wrong.

    Attributes:
        failure: Class of failure, one of `result.CLASSES`.
        detail: Description of the failure, as a clause.
        evidence: Data with which a test can show a failure that the values of results do not show:
            the `checks` whose findings have this class, the `order` of programs, the torch
            `operator` and its number of elements, whether `launches` were left out, whether only a
            `replay` shows it, whether an argument was `touched` by torch or `stored` to by a kernel
            and restored, whether it is an `effect` on settings of torch or on attributes of
            arguments, or whether a gradient was computed `late`, after another call.
        where: Line of the user's code, as `file:line` or `file:line:column`; empty if unknown.
        witness: Program and lane of a finding, and the values of variables there.
        help: Advice that a finding gives.
        rounding: Sentence on whether rounding errors explain the failure; empty if unknown.
    """

    failure: str
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)
    where: str = field(default="", compare=False)
    witness: str = field(default="", compare=False)
    help: str = field(default="", compare=False)
    rounding: str = field(default="", compare=False)

    def reclassified(
        self, failure: str, how: str, evidence: dict[str, Any] | None = None
    ) -> Mismatch:
        """Return a failure of a different class whose description contains that of this failure.

        Args:
            failure: The new class of the failure.
            how: The circumstances under which this failure occurs, as a clause.
            evidence: Evidence for the new class.
        """
        detail = f"{how}: {self.detail}"
        return replace(self, failure=failure, detail=detail, evidence=evidence or {})


def compare(
    right: dict[str, Any],
    found: list[dict[str, Any]],
    largest_errors: dict[str, float] | None = None,
) -> list[Mismatch]:
    """Return the mismatches of the results of a call.

    Args:
        right: Answer of the reference's process, as `evaluate` returns it.
        found: Descriptions of the candidate's results.
        largest_errors: Receives, for each float result, the largest error divided by the tolerance,
            under a label such as `result (float16)`.
    """
    expected = right["given"]
    if [part["name"] for part in expected] != [part["name"] for part in found]:
        names, wanted = (", ".join(part["name"] for part in some) for some in (found, expected))
        return [Mismatch("layout", f"the results are {names}; the reference's are {wanted}")]
    double = right["double"] or [None] * len(expected)
    spread = right.get("spread") or [None] * len(expected)
    return [
        problem
        for parts in zip(expected, double, spread, found, strict=True)
        for problem in compare_part(*parts, largest_errors=largest_errors)
    ]


def difference(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    """Describe a difference between the results of equal calls; empty if it is within tolerance."""
    alike = [{**part, "alias": None} for part in other]
    problems = compare({"given": one, "double": None}, alike)
    return problems[0].detail if problems else ""


def compare_part(
    given: dict[str, Any],
    double: Any,
    spread: Any,
    found: dict[str, Any],
    poison: bool = True,
    largest_errors: dict[str, float] | None = None,
) -> list[Mismatch]:
    """Return the mismatches of one part of a result.

    Args:
        given: The reference's part in its own types, as `results.described` returns it.
        double: The reference's part in double precision; None if there is none.
        spread: Spread of the part, see `evaluation`; None if there is none.
        found: Description of the candidate's part.
        poison: If True, unwritten memory contains a pattern that marks it.
        largest_errors: Receives the largest error, see `compare`.
    """
    name = given["name"]
    if given["kind"] != "tensor" or found["kind"] != "tensor":
        is_gradient = name.startswith(GRADIENT)
        if is_gradient and _is_zero(given) and _is_zero(found):
            return []
        return _compare_others(given, found)
    problems = []
    for what in ("shape", "dtype", "device"):
        if found[what] != given[what]:
            problems.append(
                Mismatch(
                    "layout", f"{what} of {name} is {_put(found[what])}, not {_put(given[what])}"
                )
            )
    if given["grad"] and not found["grad"]:
        problems.append(
            Mismatch("layout", f"{name} does not require a gradient, but the reference's does")
        )
    if found["alias"] and not given["alias"] and elements(found["image"]).numel():
        problems.append(
            Mismatch("layout", f"{name} shares memory with the argument `{found['alias']}`")
        )
    if found.get("shares") and not given.get("shares"):
        problems.append(Mismatch("layout", f"{name} shares memory with {found['shares']}"))
    if found["shape"] != given["shape"]:
        return problems
    value = elements(found["image"])
    wrong, error = wrong_elements(given, double, spread, value)
    if largest_errors is not None and value.dtype.is_floating_point and error.numel():
        label = f"{name} ({given['dtype'].removeprefix('torch.')})"
        largest_errors[label] = max(float(error.max()), largest_errors.get(label, 0.0))
    if not bool(wrong.any()):
        return problems
    unwritten = wrong & holds_poison(value) if poison else torch.zeros_like(wrong)
    right = elements(double if double is not None else given["image"])
    if bool(unwritten.any()):
        problems.append(
            Mismatch(
                "unwritten", f"{_which(name, unwritten)} never written{_first(unwritten, right)}"
            )
        )
    rest = wrong & ~unwritten
    if bool(rest.any()):
        problems.append(Mismatch("wrong_values", _described(name, rest, error, value, right)))
    return problems


def wrong_elements(
    given: dict[str, Any], double: Any, spread: Any, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which elements are wrong, and each error divided by the tolerance."""
    plain = elements(given["image"])
    if not plain.dtype.is_floating_point and not plain.is_complex():
        return _wrong_integers(plain, double, spread, value)
    wide = torch.complex128 if plain.is_complex() or value.is_complex() else torch.float64
    own = value.to(wide)
    nearest = torch.full(own.shape, float("inf"), dtype=torch.float64, device="cpu")
    dtype = real_type(plain.dtype)
    is_gradient = given["name"].startswith(GRADIENT)
    for right in (plain, None if double is None else elements(double)):
        if right is not None:
            error = _in_tolerances(own, right.to(wide), spread, dtype, is_gradient)
            nearest = torch.minimum(nearest, error)
    return nearest > 1, nearest


def _in_tolerances(
    own: torch.Tensor, wide: torch.Tensor, spread: Any, dtype: torch.dtype, is_gradient: bool
) -> torch.Tensor:
    """Return each error divided by the tolerance; infinite if only one of the values is finite.

    An element of a gradient may also have the relative error of the gradient's root mean square.
    This permits kernels that round an upstream gradient, or a sum of terms that cancel, to the
    type of the gradient. A gradient whose terms cancel in all elements, as for a norm over one
    column, has the spread of these terms (see `rounding`), so no absolute error is permitted.

    The error of a complex number is an absolute value. Where a complex number is not finite, any
    other that is not finite is correct, since torch does not define the parts of products and
    quotients there.
    """
    limits = torch.finfo(dtype)
    relative = RELATIVE.get(dtype, _NARROW * limits.eps)
    size = wide.abs()
    finite = size[torch.isfinite(size)]
    largest = float(finite.max()) if finite.numel() else 0.0
    scale = size.nan_to_num(0.0, 0.0)
    if spread is not None:
        scale = torch.maximum(scale, elements(spread).double().nan_to_num(0.0, 0.0))
    allowed = _SLACK * relative * scale
    if spread is None:
        allowed = allowed + relative * OF_LARGEST * min(largest, limits.max)
    if is_gradient and finite.numel():
        allowed = allowed + relative * float(finite.clamp(max=limits.max).square().mean().sqrt())
    # Types of one byte keep their denormals.
    smallest = limits.tiny if dtype in RELATIVE else limits.tiny * limits.eps
    allowed = allowed + smallest
    error = (own - wide).abs() / allowed
    # If the correct value is finite, but may round to infinity, the result may be infinity or the
    # largest finite number.
    beyond = torch.isfinite(wide) & (size + allowed >= limits.max)
    same_sign = torch.sgn(own) == torch.sgn(wide)
    large = own.abs() >= limits.max * (1 - 4 * limits.eps)
    close_error = torch.where(beyond & same_sign & large, torch.zeros_like(error), error)
    is_special = torch.isnan if own.dtype == torch.float64 else _is_not_finite
    equal = (own == wide) | (is_special(own) & is_special(wide))
    close_error = torch.where(equal, torch.zeros_like(error), close_error)
    return close_error.nan_to_num(float("inf"), float("inf"))


def _is_not_finite(numbers: torch.Tensor) -> torch.Tensor:
    return ~numbers.isfinite()


def _wrong_integers(
    plain: torch.Tensor, double: Any, spread: Any, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which integers or bools are wrong, and their errors.

    An integer that no perturbation changes must be exact. Other integers may differ from the
    reference by four times the largest change that was observed: a quotient near a half may be
    rounded to either side, and the index of a maximum may be that of another element whose value
    is nearly the same.
    """
    if value.dtype.is_floating_point:
        error = (value.double() - plain.double()).abs()
    else:
        error = (value != plain).double()
    wrong = error > 0
    if double is not None and spread is not None:
        moved = elements(spread).double()
        distance = (value.double() - elements(double).double()).abs()
        wrong = wrong & (distance > 0) & (distance > _SLACK_OF_INTEGERS * moved)
    return wrong, error


def holds_poison(value: torch.Tensor) -> torch.Tensor:
    """Return which elements of a wrong result look like unwritten memory."""
    if not value.numel():
        return torch.zeros(value.shape, dtype=torch.bool, device="cpu")
    # Imported here because it loads native code, and only wrong results need it.
    from ttools.sanitizer.memory.pattern import look_unwritten

    rows = value.cpu().contiguous().reshape(-1).view(torch.uint8).reshape(-1, value.element_size())
    marks = look_unwritten(rows.numpy(), poison=value.dtype.is_floating_point)
    return torch.from_numpy(marks).reshape(value.shape)


def _is_zero(gradient: dict[str, Any]) -> bool:
    """Return whether a gradient is undefined, as of an argument that is not used, or zero.

    Torch uses both for the same purpose: a function whose backward pass is written in Python often
    returns zeros where torch's own operators return no gradient.
    """
    if gradient["kind"] == "tensor":
        return not bool(elements(gradient["image"]).any())
    return bool(gradient["kind"] == "NoneType")


def _compare_others(given: dict[str, Any], found: dict[str, Any]) -> list[Mismatch]:
    name = given["name"]
    numbers = ("int", "float", "bool")
    if given["kind"] in numbers and found["kind"] in numbers:
        one, other = float(given["value"]), float(found["value"])
        close = abs(one - other) <= RELATIVE[torch.float32] * max(abs(one), abs(other))
        if one == other or close or (one != one and other != other):
            return []
        return [Mismatch("wrong_values", f"{name} is {other:g}; expected {one:g}")]
    if (given["kind"], given.get("value")) == (found["kind"], found.get("value")):
        return []
    return [Mismatch("layout", f"{name} is of type {found['kind']}, not {given['kind']}")]


def _put(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, list) else str(value)


def _which(name: str, marks: torch.Tensor) -> str:
    count, total = int(marks.sum()), marks.numel()
    if total == 1:
        return f"the only element of {name} is"
    if count == total:
        return f"all {total} elements of {name} are"
    return f"{count} of {total} elements of {name} {'is' if count == 1 else 'are'}"


def _first(marks: torch.Tensor, right: torch.Tensor, value: torch.Tensor | None = None) -> str:
    """Describe the first marked element, e.g. `; first at [0, 1]: 2.5, expected 0.5`.

    Args:
        marks: True for the elements that are wrong, of which there is at least one.
        value: Elements of the candidate; None to leave them out.
    """
    flat = int(marks.reshape(-1).nonzero()[0])
    return f"{'; first at ' if marks.numel() > 1 else ''}{_compared(flat, right, value)}"


def _compared(flat: int, right: torch.Tensor, value: torch.Tensor | None) -> str:
    """Describe an element, e.g. `[0, 1]: 2.5, expected 0.5`; no index if it is the only one."""
    index = torch.unravel_index(torch.tensor(flat, device="cpu"), right.shape)
    at = f"{list(map(int, index))}: " if right.numel() > 1 else ": "
    own = "" if value is None else f"{_shown(value.reshape(-1)[flat].item())}, "
    return f"{at}{own}expected {_shown(right.reshape(-1)[flat].item())}"


def _shown(number: Any) -> str:
    return f"{number:.6g}" if isinstance(number, float) else repr(number)


def _described(
    name: str,
    wrong: torch.Tensor,
    error: torch.Tensor,
    value: torch.Tensor,
    right: torch.Tensor,
) -> str:
    """Describe the first wrong element and, if it is another, the one with the largest error."""
    text = f"{_which(name, wrong)} wrong{_first(wrong, right, value)}"
    ranked = torch.where(wrong, error.nan_to_num(1e300, 1e300), torch.zeros_like(error))
    flat = int(ranked.reshape(-1).argmax())
    if flat != int(wrong.reshape(-1).nonzero()[0]):
        text += f"; largest error at {_compared(flat, right, value)}"
    times = float(error.reshape(-1)[flat])
    return f"{text} ({times:.3g} times the tolerance)" if 1 < times < 1e12 else text
