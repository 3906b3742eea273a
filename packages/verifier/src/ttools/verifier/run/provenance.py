"""Checks that a result was computed by a Triton kernel, and not by torch or other code such as C.

A wrapper may allocate, copy, view and convert tensors. It may also compute on few elements with
torch, and return results for empty inputs without a launch. The work of all operators of a call is
added up, because many small operators can compute a whole result. It is compared with the work that
the result requires, since a call may have a large argument of which few elements are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ttools.core.reports.numbers import rounded_percent
from ttools.verifier.cases.tensors import TensorImage, elements, is_constant
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.replay.operators import REARRANGING, SELECTING
from ttools.verifier.replay.work import COMBINING, ORDERS, REDUCTIONS, TESTS
from ttools.verifier.workers.operators import LEAVING
from ttools.verifier.workers.results import GRADIENT

#: Torch may compute, as preparation, on fewer elements than this share of the elements that a
#: result requires.
_SHARE = 0.25
#: Torch may always compute on fewer elements than this number. Parts of results with fewer elements
#: require no work.
_FEWEST = 8
#: If a result has several parts, such as `result[0]`, the test that is written for a failure
#: assumes this number of elements for a part.
_OF_A_PART = 4
#: Torch may compare or test fewer floats than this number times the number of elements of the
#: largest tensor. With many comparisons with constants, torch could compute a function that has few
#: different values.
_MOST_TESTS = 6
#: Number of operators that a message names.
_MOST_NAMED = 3
_INTEGERS = ("int", "uint", "bool")
#: If the reference only moves elements, torch may move fewer elements than this share of a result.
MOVED_SHARE = 0.25


def only_moves(right: dict[str, Any]) -> bool:
    """Return whether a reference computes nothing, but only moves or selects elements.

    Args:
        right: Answer of the reference's process.
    """
    return set(right["operators"]) <= REARRANGING | SELECTING


def work_of_torch(
    answer: dict[str, Any],
    right: dict[str, Any],
    images: dict[str, TensorImage],
    *,
    is_right: bool,
    may_finish: bool = True,
    passes: int = 1,
) -> list[Mismatch]:
    """Return a failure if a result was not computed by a kernel.

    Args:
        answer: Answer of the candidate's process, with results.
        right: Answer of the reference's process.
        images: Arguments that are tensors, by name.
        is_right: If True, the results are correct.
        may_finish: If True, operators may finish what kernels have computed, see `Work.finishing`.
        passes: How often the operators of the call have computed the gradients.
    """
    counts = {name: math.prod(image.shape) for name, image in images.items()}
    results = [math.prod(part["shape"]) for part in right["given"] if part["kind"] == "tensor"]
    if _depends_on_nothing(right, counts) or not results or max(results) == 0:
        return []
    largest = max([*counts.values(), *results])
    are_integers = all(image.dtype.startswith(_INTEGERS) for image in images.values())
    needed = set(right["operators"])
    is_moving = only_moves(right)
    # Torch has several operators that sort or compare; if the reference uses one of them, all count
    # as needed.
    if needed & ORDERS and not are_integers:
        needed |= ORDERS
    elif needed <= REARRANGING | SELECTING | TESTS | COMBINING:
        needed |= TESTS | COMBINING
    work: dict[str, int] = {}
    tested = 0
    for name, floats, compared, every in answer["operators"]:
        # Comparisons of floats, operators on integers, and moves count as preparation of a launch
        # unless the reference also uses them. Moves always count as preparation if the reference
        # computes anything.
        others = every if are_integers else compared
        if name in REARRANGING:
            others = every if is_moving else 0
        work[name] = max(floats, others if name in needed else 0)
        tested += compared
    # Each of these products does all of the work that the gradient requires.
    for part, name, count, _ in answer.get("finished_by", ()):
        if name not in REDUCTIONS and part in right.get("plain_gradients", ()):
            work[name] = work.get(name, 0) + count
    if tested >= passes * _MOST_TESTS * largest:
        detail = f"torch compares or tests {tested} floats, in a call whose largest tensor has"
        names = [name for name, _, compared, _ in answer["operators"] if compared]
        return [_not_computed(f"{detail} {largest}", operators=[names, tested])]
    total = sum(work.values())
    required = min([largest, *_required(right, counts)])
    if total >= passes * max(_FEWEST, _SHARE * required):
        names = [name for name in sorted(work, key=lambda each: -work[each]) if work[name]]
        detail = f"torch {_verb(names)}: {_listed(names)} on {total} elements, "
        is_largest = required == largest
        detail += "in a call whose largest tensor has" if is_largest else "where a result requires"
        detail += f" {required}"
        return [_not_computed(detail, operators=[names, total])]
    if not may_finish and (finishing := dict(answer.get("finishing", ()))):
        detail = f"torch finishes a result: {finishing_work(answer, right).text}"
        return [_not_computed(detail, operators=[list(finishing), sum(finishing.values())])]
    parts = _parts_of_torch(answer, right, counts, may_finish=may_finish)
    if is_right and (problem := next(parts, None)) is not None:
        return [problem]
    for part in answer["lazy"]:
        return [
            _not_computed(
                f"{part} is of a tensor subclass that computes its elements when they are read"
            )
        ]
    if is_right and not answer["launches"] and is_telling(right):
        return [_not_computed("no kernel was launched for these inputs", launches=False)]
    return []


def _parts_of_torch(
    answer: dict[str, Any], right: dict[str, Any], counts: dict[str, int], *, may_finish: bool
) -> Iterator[Mismatch]:
    """Yield a failure for each part of a correct result that torch computed; see `work_of_torch`.

    Args:
        answer: Answer of the candidate's process.
        right: Answer of the reference's process.
        counts: Numbers of elements of the arguments, by name.
        may_finish: If True, operators may finish what kernels have computed.
    """
    sizes = {e["name"]: math.prod(e["shape"]) for e in right["given"] if e["kind"] == "tensor"}
    for part, name in (
        *answer.get("copied", ()),
        *(() if may_finish else answer.get("finished", ())),
    ):
        size = max(sizes.values()) if "[" not in part else _OF_A_PART
        detail = f"{part} was computed by torch's `{name}`"
        yield _not_computed(detail, operators=[[name], size])
    of_torch = dict(answer.get("computed_for", ()))
    works = right.get("work_of_parts", ())
    for entry, sources, work in zip(right["given"], right.get("sources", ()), works, strict=False):
        # Torch may compute a scale or a length for launches, but not a result such as the sum of
        # the sines of a small argument. Such a result requires the elements of the largest argument
        # on which it depends, but no more than the floats that the reference computes for it.
        part = entry["name"]
        if 0 < sizes.get(part, 0) < _FEWEST:
            largest = max((counts.get(name, 0) for name in sources), default=0)
            required, count = min(largest, work or largest), of_torch.get(part, 0)
            if count >= max(_FEWEST, _SHARE * required):
                names = [name for name, floats, *_ in answer["operators"] if floats]
                detail = f"torch computes {part}: {_listed(names)} on {count} elements, where "
                yield _not_computed(f"{detail}it requires {required}", operators=[names, count])


def _depends_on_nothing(right: dict[str, Any], counts: dict[str, int]) -> bool:
    """Return whether a result depends on an argument that has no elements.

    Arguments on which no result depends may always be empty, such as those that stand for "no
    bias".
    """
    empty = {name for name, count in counts.items() if count == 0}
    sources = right.get("sources")
    return bool(empty) and (sources is None or any(map(empty.intersection, sources)))


@dataclass(frozen=True)
class FinishingWork:
    """The work of the operators in one call that finish what kernels have computed.

    Attributes:
        operators: Names of the operators.
        elements: Number of elements on which they compute.
        operations: Number of operations of the reference, see `PlanRecorder.work_of`; 0 if unknown.
    """

    operators: tuple[str, ...] = ()
    elements: int = 0
    operations: int = 0

    @property
    def text(self) -> str:
        """Describe the operators and the share of their work in the reference's work."""
        text = f"{_listed(list(self.operators))} on {self.elements:,} elements"
        if not self.operations:
            return text
        share = rounded_percent(self.elements / self.operations)
        return f"{text} ({share} of the reference's {self.operations:,} operations)"

    def as_dict(self) -> dict[str, Any]:
        """Return the work as data for JSON; the share is None if it is unknown."""
        share = self.elements / self.operations if self.operations else None
        return {**asdict(self), "operators": list(self.operators), "share": share}


def finishing_work(answer: dict[str, Any], right: dict[str, Any]) -> FinishingWork:
    """Return the work of operators that finish what kernels have computed.

    Args:
        answer: Answer of the candidate's process.
        right: Answer of the reference's process.
    """
    finishing = answer.get("finishing", ())
    names, count = tuple(name for name, _ in finishing), sum(count for _, count in finishing)
    return FinishingWork(names, count, right.get("operations", 0))


@dataclass(frozen=True)
class Reduction:
    """The reductions by which torch finishes one part of a result.

    Attributes:
        part: Name of the part.
        operators: Names of the reductions.
        elements: Number of elements that they reduce.
        length: Largest number of elements that they combine into one.
        operations: Number of operations of the reference for this part.
    """

    part: str
    operators: tuple[str, ...]
    elements: int
    length: int
    operations: int

    @property
    def is_small(self) -> bool:
        """True if torch does a small part of the work, so that the kernels do most of it."""
        return self.elements < _SHARE * self.operations

    @property
    def problem(self) -> Mismatch:
        """The failure to report if torch reduces too many elements."""
        detail = (
            f"torch computes: {_listed(list(self.operators))} on {self.elements:,} elements, where "
            f"the reference needs {self.operations:,} operations for {self.part}"
        )
        return _not_computed(detail, operators=[list(self.operators), self.elements])


def reductions_of(
    answer: dict[str, Any], right: dict[str, Any], images: dict[str, TensorImage]
) -> list[Reduction]:
    """Return the reductions by which torch finishes each part of a result, unless they are tiny.

    Args:
        answer: Answer of the candidate's process, or of the process that executes plans.
        right: Answer of the reference's process.
        images: Arguments that are tensors, by name. If the number of the reference's operations is
            unknown, the size of the largest argument is used instead.
    """
    largest = max((math.prod(image.shape) for image in images.values()), default=0)
    # If the reference has no operations for a part, the part depends only on upstream gradients,
    # which have the shapes of the results.
    upstream = max(
        (
            math.prod(part["shape"])
            for part in right["given"]
            if part["kind"] == "tensor" and not part["name"].startswith(GRADIENT)
        ),
        default=0,
    )
    operations = {
        part["name"]: count or upstream
        for part, count in zip(right["given"], right.get("operations_of_parts", ()), strict=False)
    }
    steps: dict[str, list[tuple[str, int, int]]] = {}
    for part, name, count, length in answer.get("finished_by", ()):
        if name in REDUCTIONS:
            steps.setdefault(part, []).append((name, count, length))
    reductions = (
        Reduction(
            part,
            tuple(dict.fromkeys(name for name, _, _ in own)),
            sum(count for _, count, _ in own),
            max(length for _, _, length in own),
            operations.get(part, largest),
        )
        for part, own in steps.items()
    )
    return [reduction for reduction in reductions if reduction.elements >= _FEWEST]


def _required(right: dict[str, Any], counts: dict[str, int]) -> Iterator[int]:
    """Yield numbers of elements on which kernels must compute; the smallest number is decisive.

    A part of a result requires at least as many elements as it has. If an argument on which it
    depends is larger, the part requires the number of elements of this argument, but no more than
    the floats that the reference computes for the part. The whole result requires no more than the
    floats that the reference computes for it.

    Args:
        right: Answer of the reference's process.
        counts: Numbers of elements of the arguments, by name.
    """
    if work := right.get("work", 0):
        yield work
    all_sources = right.get("sources", ())
    works = right.get("work_of_parts") or [0] * len(all_sources)
    for part, sources, work in zip(right["given"], all_sources, works, strict=False):
        own = math.prod(part["shape"]) if part["kind"] == "tensor" else 0
        if sources and own >= _FEWEST:
            largest = max((counts.get(name, 0) for name in sources), default=0)
            yield max(own, min(largest, work or largest))


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
    return any(
        part["kind"] == "tensor" and not is_constant(elements(part["image"]))
        for part in right["given"]
    )
