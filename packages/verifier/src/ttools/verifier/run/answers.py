"""Checks the form of the answers of processes that run a candidate.

Such a process may send anything that its codec can read. A malformed answer would raise exceptions
in the process that compares results, or make it allocate memory for a tensor that is described as
very large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Severity
from ttools.verifier.cases.tensors import TensorImage
from ttools.verifier.replay.plan import ITEM_BYTES
from ttools.verifier.workers.results import flat

_S = TypeVar("_S", bound=Struct)
_E = TypeVar("_E")
#: A text for a report; the report joins its lines and wraps them again.
_Line = Annotated[str, Meta(max_length=100_000)]
_Count = Annotated[int, Meta(ge=0)]
_Few = Annotated[list[_E], Meta(max_length=10_000)]


class MalformedAnswerError(TtoolsError):
    """The process of a candidate has sent an answer that does not have the expected form."""


class _Finding(Struct):
    kind: _Line
    check: _Line
    severity: Severity
    message: _Line
    kernel: _Line
    where: _Line
    witness: _Line | None
    help: _Line | None


class _OutputError(Struct):
    name: _Line
    dtype: _Line
    ulps: float
    where: _Line
    share: float


class _Accuracy(Struct):
    findings: list[_Finding]
    limits: list[str]
    outputs: list[_OutputError]


class _Error(Struct):
    kind: _Line
    text: _Line
    where: _Line


class _Answer(Struct):
    launches: _Count
    constants: _Few[int]
    kernels: _Few[_Line]
    findings: _Few[_Finding]
    too_large: _Line = ""
    configs: _Few[_Few[int]] = []
    rounded_products: _Few[_Line] = []
    drew: bool = False
    replaced: _Few[_Line] = []
    log: Any = None
    structure: tuple[str, bytes] = "", b""
    plan: bytes = b""
    no_plan: _Line = ""
    error: _Error | None = None
    unsupported: _Line = ""
    accuracy: _Accuracy | None = None
    declined: _Line = ""


class _Failed(Struct):
    broken: _Line = ""
    not_loaded: _Line = ""


class _Results(Struct):
    call: int
    results: list[dict[str, Any]]
    lazy: list[_Line]
    operators: _Few[tuple[_Line, _Count, _Count, _Count]]
    stored: dict[str, str]
    changed: list[str]
    reshaped: list[str]
    arguments: dict[str, Any]
    finishing: _Few[tuple[_Line, _Count]] = []
    finished_by: _Few[tuple[_Line, _Line, _Count, _Count]] = []
    attached: _Few[_Line] = []
    settings: _Few[_Line] = []
    reseeded: _Few[_Line] = []


class _Kept(Struct):
    kept: list[tuple[int, list[bytes]]] = []


class _Tensor(Struct):
    name: _Line
    dtype: _Line
    shape: list[int]
    device: str
    grad: bool
    alias: str | None
    image: Any
    shares: _Line | None = None
    contiguous: bool = True


class _Other(Struct):
    name: _Line
    kind: _Line
    value: bool | int | float | str | None


def require_dictionary(answer: Any) -> dict[str, Any]:
    """Return an answer after checking that its descriptions of failures are texts.

    Raises:
        MalformedAnswerError: The answer is not a dictionary, or a failure is not a text.
    """
    try:
        _converted(answer, _Failed)
    except msgspec.ValidationError as error:
        raise _malformed(error) from None
    checked: dict[str, Any] = answer
    return checked


class AllSizesFinding(Struct, kw_only=True, frozen=True):
    """An error at concrete sizes, as the process for all sizes describes it.

    Attributes:
        kind: Kind of the finding.
        severity: Severity of the finding.
        message: Description of the error.
        kernel: Name of the kernel.
        where: Line of the user's code.
        sizes: Sizes at which the error occurs.
        bytes: Size of the accessed storage; 0 if it is not known.
    """

    kind: _Line
    severity: Severity
    message: _Line
    kernel: _Line
    where: _Line
    sizes: dict[str, int]
    bytes: int


class AllSizesAnswer(Struct, kw_only=True, frozen=True):
    """The answer of the process that checks all sizes, or the reason why there is none.

    Attributes:
        error: Reason why the sizes could not be checked; empty if they were.
        launches: True if a kernel was launched.
        findings: Errors at concrete sizes.
        sentences: Sentences about the sizes for which kernels are correct.
        is_late: True if the time limit was reached.
        abstained: Reasons why accesses were not proved.
        assumptions: Assumptions of the proofs.
    """

    error: _Line = ""
    launches: bool = False
    findings: list[AllSizesFinding] = []
    sentences: list[_Line] = []
    is_late: bool = False
    abstained: list[_Line] = []
    assumptions: list[_Line] = []


def all_sizes_answer(
    answer: Any, ranges: Mapping[str, tuple[int, int]] = MappingProxyType({})
) -> AllSizesAnswer:
    """Return the answer of the process that checks all sizes, in which the candidate runs.

    Args:
        answer: The decoded answer of the process.
        ranges: Smallest and largest value of each size; the sizes of findings must be in these
            ranges.

    Raises:
        MalformedAnswerError: The answer does not have the expected form.
    """
    try:
        checked = _converted(answer, AllSizesAnswer)
    except msgspec.ValidationError as error:
        raise _malformed(error) from None
    for finding in checked.findings:
        sizes = finding.sizes
        if sizes.keys() != ranges.keys() or not all(
            low <= sizes[name] <= high for name, (low, high) in ranges.items()
        ):
            raise _malformed(MalformedAnswerError("it contains sizes outside of the domain"))
    return checked


def require_answer(answer: Any, sent: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to a request to call the candidate, without any unknown entries.

    Args:
        answer: The decoded answer of the process.
        sent: Arguments of the call.

    Raises:
        MalformedAnswerError: The answer does not have the expected form.
    """
    if isinstance(answer, dict) and isinstance(answer.get("broken"), str):
        return {"broken": answer["broken"]}
    try:
        checked = _converted(answer, _Answer)
        own = {name: answer[name] for name in _Answer.__struct_fields__ if answer.get(name)}
        own = {"launches": 0, "constants": [], "kernels": [], "findings": [], **own}
        if checked.error or checked.unsupported:
            return own
        returned = _converted(answer, _Results)
        for part in returned.results:
            _require_part(part)
        for name, value in sent.items():
            _require_memory(name, value, returned.arguments.get(name), returned.reshaped)
    except (msgspec.ValidationError, MalformedAnswerError) as error:
        raise _malformed(error) from None
    return own | {name: answer[name] for name in _Results.__struct_fields__ if name in answer}


def _require_part(part: dict[str, Any]) -> None:
    """Check one part of a result; a tensor must contain its elements contiguously and in order."""
    if part.get("kind") != "tensor":
        _converted(part, _Other)
        return
    tensor = _converted(part, _Tensor)
    image = tensor.image
    item = ITEM_BYTES.get(tensor.dtype)
    if not isinstance(image, TensorImage) or item is None:
        raise MalformedAnswerError(f"{tensor.name} is not a tensor")
    spec = image.spec
    is_same = list(spec.shape) == tensor.shape and spec.dtype == tensor.dtype and not spec.offset
    is_same = is_same and spec.is_dense and spec.itemsize == item
    if not is_same or math.prod(spec.shape) * item != len(image.data):
        raise MalformedAnswerError(f"{tensor.name} is described inconsistently")


def _require_memory(name: str, value: Any, memory: Any, reshaped: list[str]) -> None:
    """Check that an argument's memory keeps its size in a call, unless the answer says otherwise.

    Args:
        name: Name of the argument.
        value: The argument as it was sent.
        memory: Bytes of the argument's storages after the call.
        reshaped: Names of the parts that have different storages after the call.
    """
    before, after = flat(value, name), flat(memory, name)
    if [path for path, _ in before] != [path for path, _ in after]:
        raise MalformedAnswerError(f"the argument `{name}` has other parts")
    for (path, image), (_, data) in zip(before, after, strict=True):
        if not isinstance(image, TensorImage):
            continue
        is_memory = isinstance(data, bytes)
        if not is_memory or (len(data) != len(image.data) and path not in reshaped):
            raise MalformedAnswerError(f"the memory of `{path}` has another size")


def kept_results(answer: Any) -> list[tuple[int, list[bytes]]]:
    """Return the elements of the results of earlier calls, with the number of each call.

    Raises:
        MalformedAnswerError: The answer does not have the expected form.
    """
    try:
        return _converted(answer, _Kept).kept
    except msgspec.ValidationError as error:
        raise _malformed(error) from None


def _converted(value: Any, kind: type[_S]) -> _S:
    # Without this argument, texts that look like base64 would be accepted as bytes.
    return msgspec.convert(value, kind, builtin_types=(bytes,))


def _malformed(error: Exception) -> MalformedAnswerError:
    text = f"the candidate's process sent an answer of another form: {str(error)[:200]}"
    return MalformedAnswerError(text)
