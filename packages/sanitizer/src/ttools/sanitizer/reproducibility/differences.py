"""Compares hashes of launches, and finds the first difference between two expression trees."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.stages import Compilation, same_code
from ttools.core.errors import TtoolsError
from ttools.core.location import SourceLocation, shown_place
from ttools.core.ownership import is_triton_file
from ttools.sanitizer.reproducibility.follower import LIBRARY, Line, Step
from ttools.sanitizer.reproducibility.hashes import KEEPS, ORDERED, UNKNOWN, UNSURE, Hashed
from ttools.sanitizer.reproducibility.run import HashedKernelRun, StoredTensor

Verdict = Literal["equal", "differs", "unknown"]
#: Maximum number of pairs of nodes that are compared.
_MOST_PAIRS = 400


@dataclass(frozen=True)
class Comparison:
    """The comparison of two arrays of hashes.

    Attributes:
        verdict: The answer for all elements together.
        elements: Number of elements that were compared.
        differing: Number of elements that differ.
        witness: Index of the first element that differs or is unknown; None if all are equal.
    """

    verdict: Verdict
    elements: int
    differing: int = 0
    witness: int | None = None


def compare(first: Hashed, second: Hashed) -> Comparison:
    """Compare the hashes of two executions, element by element."""
    marks = first | second
    is_unknown = (marks & (UNKNOWN | UNSURE)) != 0
    differs = ((first != second) | ((marks & ORDERED) != 0)) & ~is_unknown
    return _comparison(differs, is_unknown)


def compare_runs(hashes: Hashed) -> Comparison:
    """Determine whether elements depend on the order in which programs run."""
    is_unknown = (hashes & UNSURE) != 0
    return _comparison(((hashes & ORDERED) != 0) & ~is_unknown, is_unknown)


def _comparison(differs: Any, is_unknown: Any) -> Comparison:
    count = int(differs.sum())
    if count:
        return Comparison("differs", differs.size, count, int(np.argmax(differs)))
    if is_unknown.any():
        return Comparison("unknown", differs.size, 0, int(np.argmax(is_unknown)))
    return Comparison("equal", differs.size)


# ---- launches


@dataclass(frozen=True, kw_only=True)
class StoredComparison:
    """The comparison of what two launches with equal arguments have stored.

    Attributes:
        verdict: The answer for all elements together.
        elements: Number of elements that were compared.
        reason: Reason why the verdict is `unknown` or `differs`; empty if `stored` shows the
            reason.
        place: Source line of the reason, if known.
        stored: The two tensors with the first element that differs or is unknown.
        number: Index of this element in both tensors' arrays of elements.
    """

    verdict: Verdict
    elements: int
    reason: str = ""
    place: SourceLocation | None = None
    stored: tuple[StoredTensor, StoredTensor] | None = None
    number: int = 0

    @property
    def witness(self) -> str:
        """The first element that differs or is unknown, as text; empty if there is none."""
        if self.stored is None:
            return ""
        return f"element {self.stored[0].elements[self.number]} of `{self.stored[0].name}`"


def compare_launches(first: HashedKernelRun, second: HashedKernelRun) -> StoredComparison:
    """Compare what two launches with equal arguments have stored.

    If only some programs of the launches were followed, only elements are compared that followed
    programs of both launches have stored.

    Args:
        first: A launch in one configuration, for one target.
        second: Another launch, in another configuration or for another target.
    """
    for launch in (first, second):
        if launch.failure:
            return StoredComparison(verdict="unknown", elements=0, reason=launch.failure)
    is_part = first.is_part or second.is_part
    elements = 0
    unknown: StoredComparison | None = None
    others = _by_argument(second)
    for key, whole in _by_argument(first).items():
        other = others.pop(key, None)
        pair = None if other is None else _same_elements(whole, other, is_part)
        if pair is None:
            reason = f"they store to different elements of `{whole.name}`"
            return StoredComparison(verdict="differs", elements=elements, reason=reason)
        comparison = compare(pair[0].hashes, pair[1].hashes)
        elements += comparison.elements
        if comparison.witness is None:
            continue
        result = StoredComparison(
            verdict=comparison.verdict, elements=elements, stored=pair, number=comparison.witness
        )
        if comparison.verdict == "differs":
            return result
        unknown = unknown or _with_reason(result, (first, second))
    if unknown is not None:
        return unknown
    if others:
        reason = "they store to different arguments"
        return StoredComparison(verdict="differs", elements=elements, reason=reason)
    if is_part and not elements:
        reason = "the programs that were followed have stored no common element"
        return StoredComparison(verdict="unknown", elements=0, reason=reason)
    reason = fusion_differs(first, second)
    return StoredComparison(
        verdict="unknown" if reason else "equal", elements=elements, reason=reason
    )


def _by_argument(launch: HashedKernelRun) -> dict[tuple[str, int, int], StoredTensor]:
    """Return what a launch has stored, by name, element size, and number among equal ones."""
    result: dict[tuple[str, int, int], StoredTensor] = {}
    for stored in launch.stored:
        number = sum(key[:2] == (stored.name, stored.size) for key in result)
        result[stored.name, stored.size, number] = stored
    return result


def _same_elements(
    first: StoredTensor, second: StoredTensor, is_part: bool
) -> tuple[StoredTensor, StoredTensor] | None:
    """Return the elements that both have stored; None if they should be the same and are not."""
    if np.array_equal(first.elements, second.elements):
        return first, second
    if not is_part:
        return None
    _, one, other = np.intersect1d(
        first.elements, second.elements, assume_unique=True, return_indices=True
    )
    return first.at(one), second.at(other)


def _with_reason(
    comparison: StoredComparison, launches: Sequence[HashedKernelRun]
) -> StoredComparison:
    for launch in launches:
        for reason, place in launch.reasons.items():
            return replace(comparison, reason=reason, place=place)
    return comparison


# ---- the first difference


@dataclass(frozen=True)
class Difference:
    """The operation at which two expression trees differ.

    Attributes:
        place: Source line of the difference.
        first: The operation in the first execution.
        second: The operation in the second execution.
    """

    place: SourceLocation | None
    first: str
    second: str


@dataclass(frozen=True)
class DifferentInputs:
    """Two trees with equal operations whose first different inputs have these hashes."""

    first: int
    second: int


def first_difference(
    first: Sequence[Step], first_hash: int, second: Sequence[Step], second_hash: int
) -> Difference | DifferentInputs | None:
    """Return the operation closest to the result at which two trees differ in structure.

    If only inputs differ, the first different inputs are returned; they may be results of earlier
    launches.

    Args:
        first: The recorded operations of the first execution.
        first_hash: Hash of the result of the first execution.
        second: The recorded operations of the second execution.
        second_hash: Hash of the result of the second execution.
    """
    pairs = deque([(first_hash, second_hash)])
    tried: set[tuple[int, int]] = set()
    inputs: DifferentInputs | None = None
    while pairs and len(tried) < _MOST_PAIRS:
        pair = pairs.popleft()
        if pair in tried or pair[0] == pair[1]:
            continue
        tried.add(pair)
        one, other = _find(first, pair[0]), _find(second, pair[1])
        if one is None or other is None:
            if one is None and other is None:
                inputs = inputs or DifferentInputs(*pair)
                continue
            step = (one or other or (None, 0))[0]
            place = None if step is None else step.place
            return Difference(place, _described(one), _described(other))
        if (one[0].operation, one[0].text) != (other[0].operation, other[0].text):
            return Difference(one[0].place, _described(one), _described(other))
        pairs.extend(zip(_operands(*one), _operands(*other), strict=False))
    return inputs


def _find(steps: Sequence[Step], wanted: int) -> tuple[Step, int] | None:
    """Return the last operation that has a result with the given hash, and the element's index."""
    number = np.uint64(wanted) | KEEPS  # a sum with zero has the hash of its other operand
    for step in reversed(steps):
        index = np.flatnonzero((step.result.reshape(-1) | KEEPS) == number)
        if len(index):
            return step, int(index[0])
    return None


def _operands(step: Step, index: int) -> list[int]:
    """Return the hashes of the operands from which one element was computed."""
    where: Any = np.unravel_index(index, step.result.shape)
    if step.axis is None:
        return [int(operand[where]) for operand in step.operands]
    at: Any = (*where[: step.axis], slice(None), *where[step.axis :])
    return [int(n) for operand in step.operands for n in operand[at]]


def _described(entry: tuple[Step, int] | None) -> str:
    if entry is None:
        return "an input"
    step, _ = entry
    if step.operation == "sum":
        return f"a sum of {step.text}"
    if step.operation == "dot":
        return f"a product of matrices ({step.text})"
    return f"`{step.operation}`" + (f" ({step.text})" if step.text else "")


# ---- machine code

_KINDS = ("FFMA", "FMUL", "FADD", "HFMA2", "HMUL2", "HADD2", "DFMA", "DMUL", "DADD")
#: Instructions that move a constant or convert a half to f32, by adding to or multiplying by zero.
_MOVES = re.compile(r" HFMA2(?:\.\w+)* R\d+, -RZ, RZ,| HADD2\.F32 R\d+, -RZ,")
_FUSED = ("FFMA", "HFMA2", "DFMA")


def fusion_differs(first: HashedKernelRun, second: HashedKernelRun) -> str:
    """Return why two kernels may fuse products with sums differently; empty if they do not."""
    lines = sorted({*first.fusible, *second.fusible})
    kernels = first.compilation, second.compilation
    if not lines or kernels[0] is None or kernels[1] is None:
        return ""
    if same_code(kernels[0].binary, kernels[1].binary):
        return ""
    for product, total in lines:
        place = shown_place(*product)
        try:
            kinds = [_instructions(kernel, {product, total}) for kernel in kernels if kernel]
        except TtoolsError as error:
            return f"the machine code cannot be read: {str(error).splitlines()[0]}"
        is_mixed = any(set(_FUSED) & some and some - set(_FUSED) for some in kinds)
        if kinds[0] != kinds[1] or is_mixed:
            return f"the compiler may fuse the product at {place} with a sum in one of the two"
    return ""


def _instructions(kernel: Compilation, lines: set[Line]) -> set[str]:
    """Return the kinds of the floating-point instructions at the given lines."""
    kinds: set[str] = set()
    for line in annotate("sass", kernel.sass):
        here = line.location
        if here is None or _MOVES.search(line.text):
            continue
        is_library = LIBRARY in lines and is_triton_file(here.file)
        if is_library or (here.file, here.line) in lines:
            kinds.update(kind for kind in _KINDS if f" {kind}" in line.text)
    return kinds
