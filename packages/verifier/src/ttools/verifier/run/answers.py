"""Checks the form of the answers of processes that run a candidate.

Such a process may send anything that its codec can read. An answer of another form would raise
exceptions in the process that compares, or make it allocate memory for a tensor that is described
as very large.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Severity
from ttools.verifier.cases.tensors import TensorImage
from ttools.verifier.replay.plan import ITEM_BYTES
from ttools.verifier.workers.results import flat

_S = TypeVar("_S", bound=Struct)


class MalformedAnswerError(TtoolsError):
    """The process of a candidate has sent an answer of another form."""


class _Finding(Struct):
    kind: str
    check: str
    severity: Severity
    message: str
    kernel: str
    where: str
    witness: str | None
    help: str | None


class _OutputError(Struct):
    name: str
    dtype: str
    ulps: float
    where: str
    share: float


class _Accuracy(Struct):
    findings: list[_Finding]
    limits: list[str]
    outputs: list[_OutputError]


class _Error(Struct):
    kind: str
    text: str
    where: str


class _Answer(Struct):
    launches: int
    constants: list[int]
    kernels: list[str]
    findings: list[_Finding]
    too_large: str = ""
    configs: list[list[int]] = []
    drew: bool = False
    replaced: list[str] = []
    log: Any = None
    structure: tuple[str, bytes] = "", b""
    plan: bytes = b""
    no_plan: str = ""
    error: _Error | None = None
    unsupported: str = ""
    accuracy: _Accuracy | None = None


class _Results(Struct):
    call: int
    results: list[dict[str, Any]]
    lazy: list[str]
    operators: list[tuple[str, int, int, int]]
    stored: dict[str, str]
    changed: list[str]
    reshaped: list[str]
    arguments: dict[str, Any]


class _Kept(Struct):
    kept: list[tuple[int, list[bytes]]] = []


class _Tensor(Struct):
    name: str
    dtype: str
    shape: list[int]
    device: str
    grad: bool
    alias: str | None
    image: Any


class _Other(Struct):
    name: str
    kind: str
    value: bool | int | float | str | None


def require_answer(answer: Any, sent: dict[str, Any]) -> None:
    """Check an answer to a request to call the candidate.

    Args:
        answer: The decoded answer of the process.
        sent: Arguments of the call.

    Raises:
        MalformedAnswerError: The answer has another form.
    """
    if isinstance(answer, dict) and isinstance(answer.get("broken"), str):
        return
    try:
        checked = _converted(answer, _Answer)
        if "results" not in answer and (checked.error or checked.unsupported):
            return
        returned = _converted(answer, _Results)
        for part in returned.results:
            _require_part(part)
        for name, value in sent.items():
            _require_memory(name, value, returned.arguments.get(name), returned.reshaped)
    except (msgspec.ValidationError, MalformedAnswerError) as error:
        raise _malformed(error) from None


def _require_part(part: dict[str, Any]) -> None:
    """Check one part of a result; a tensor consists of elements in order."""
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
        memory: Bytes of its storages after the call.
        reshaped: Names of the parts that have other storages after the call.
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
    """Return the elements of results of earlier calls, by the number of the call.

    Raises:
        MalformedAnswerError: The answer has another form.
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
