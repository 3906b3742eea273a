"""The outcome of one case, and the classification of failures.

A failed case is wrong, unsupported by the engine, or excluded. The rules of exclusion are a table.
A rule matches an exception and its traceback if the case requires something that no CPU has or that
the installed Triton lacks; such a case is excluded. A failure that matches no rule is wrong. This
module runs in the workers.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ttools.core.ownership import owner_of_file, package_folders

Status = Literal["pass", "wrong", "unsupported", "excluded"]
STATUSES: tuple[Status, ...] = ("pass", "wrong", "unsupported", "excluded")
CALLS_CUDA = "calls torch.cuda itself"
DETAIL_WIDTH = 300


@dataclass(frozen=True)
class Case:
    """One test function with one set of parameters.

    Attributes:
        node: The node id of pytest.
        function: Name of the test function, such as `test_core.py::test_bin_op`.
    """

    node: str
    function: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        node: The node id of pytest.
        status: One of `STATUSES`; crashes and timeouts are wrong.
        reason: Reason why the case did not pass; equal reasons are counted together.
        detail: Details of this case, such as its error message.
        seconds: Wall time in seconds, including compilation.
    """

    node: str
    status: Status
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and its causes or contexts, outermost first."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _unsupported(error: BaseException) -> str | None:
    """Return the message of an `UnsupportedError` of the engine."""
    names = {base.__name__ for base in type(error).__mro__}
    if "UnsupportedError" not in names:
        return None
    return str(getattr(error, "what", error))


_NO_GPU = re.compile(r"Torch not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver")


def _calls_cuda(error: BaseException) -> str | None:
    """Match an error in a call of torch.cuda by the test itself, not by the engine."""
    if _NO_GPU.search(str(error)):  # the message may be the output of a script that the test ran
        return CALLS_CUDA
    caller = ""
    torch_cuda = tuple(f"{folder}/cuda/" for folder in package_folders("torch"))
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(torch_cuda):
            return None if owner_of_file(caller) == "ttools" else CALLS_CUDA
        caller = frame.filename
    return None


def _reads_gpu_code(error: BaseException) -> str | None:
    """Match an error in the lookup of a compilation stage that only GPU backends have."""
    stage = re.search(r"Unknown key: '(\w+)'", str(error)) if isinstance(error, KeyError) else None
    return f"reads the `{stage[1]}` of the kernel, which is GPU code" if stage else None


_OTHER_TRITON = (
    (r"module 'triton[\w.]*' has no attribute '(\w+)'", "`{}` is not in this Triton"),
    (r"cannot import name '(\w+)' from 'triton[\w.]*'", "`{}` is not in this Triton"),
    (r"([A-Z][\w ]*) have been removed", "this Triton says: {} have been removed"),
    *(
        (pattern, "this Triton's front end says: {}")
        for pattern in (
            r"(too many indices for tensor of rank 0)",
            # Not implemented in Triton 3.6:
            r"(current implementation of `cat` always may reorder elements)",
            r"(Cache modifier \.cs not supported)",
            r"(lhs_scale must be a tensor) of shape \[\d+, \d+\]\. Got \['\d+', '\d+', '\d+'\]",
            r"(topk\(\) got an unexpected keyword argument 'descending')",
            r"('\w+' is not in list)",  # a field of a tuple of constants
            r"^(error encountered during parsing)$",  # rows that are indexed by 16-bit integers
        )
    ),
)


def _lacks_api(error: BaseException) -> str | None:
    """Match an error about an API that the installed Triton does not have."""
    for pattern, text in _OTHER_TRITON:
        match = re.search(pattern, str(error))
        if match:
            return text.format(match[1])
    return None


def _lacks_module(error: BaseException) -> str | None:
    """Match an error about a missing Python module, except for dependencies of ttools."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if not name or name.split(".")[0] in ("ttools", "llvmlite", "numpy", "torch", "triton"):
        return None
    return f"the Python module `{name}` is not installed"


#: The message of a finding may continue on indented lines, up to the source line.
_FINDING = re.compile(r": ((?:error|warning)\[\w+\]):\s+(.*(?:\n  (?!\s|\d+ \|).*)*)")


def finding(error: BaseException) -> tuple[str, str] | None:
    """Return check and message of the first finding for which the sanitizer fails a test."""
    match = _FINDING.search(str(error)) if type(error).__name__ == "Failed" else None
    return (match[1], " ".join(match[2].split())) if match else None


Rule = Callable[[BaseException], "str | None"]
EXCLUSIONS: tuple[Rule, ...] = (_calls_cuda, _reads_gpu_code, _lacks_api, _lacks_module)
RULES: tuple[tuple[Status, Rule], ...] = (
    ("unsupported", _unsupported),
    *(("excluded", rule) for rule in EXCLUSIONS),
)


def classify(error: BaseException) -> tuple[Status, str, str]:
    """Return status, reason and detail of a case that failed with `error`."""
    chain = list(causes(error))
    check_and_message = finding(error)
    if check_and_message is not None:
        return "wrong", *check_and_message
    for status, rule in RULES:
        for cause in chain:
            reason = rule(cause)
            if reason is not None:
                return status, reason, ""
    return "wrong", type(error).__name__, _message(chain)


def _message(chain: list[BaseException]) -> str:
    """Return the message and the innermost line outside torch and NumPy, on one line."""
    error = chain[0]
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in frames
        if owner_of_file(frame.filename) not in ("torch", "numpy")
    ]
    text = " ".join(str(error).split())
    if len(text) > DETAIL_WIDTH:  # Triton's message ends with the reason, after the kernel's source
        text = f"{text[: DETAIL_WIDTH // 2]} … {text[-DETAIL_WIDTH // 2 :]}"
    return f"{text} (at {places[-1]})" if places else text
