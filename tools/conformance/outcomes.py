"""What became of one case, and how a failure is told: wrong, unsupported, or not ours to pass.

The rules of exclusion are a table. Each recognises by the exception and by where it was raised
that the case asks for something no CPU has, or that this Triton lacks; whatever no rule recognises
is wrong. Runs in the workers, and knows neither pytest's hooks nor processes.
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
        node: pytest's node id.
        function: the test function, `test_core.py::test_bin_op`.
    """

    node: str
    function: str


@dataclass(frozen=True)
class Outcome:
    """What a case did.

    Attributes:
        node: pytest's node id.
        status: one of `STATUSES`; crashes and timeouts are wrong.
        reason: why it is not a pass; cases of one reason are counted together.
        detail: what was special about this case, such as its error message.
        seconds: wall time, with compiling.
    """

    node: str
    status: Status
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields `error` and what led to it, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _unsupported(error: BaseException) -> str | None:
    """What the engine refused, in its own words."""
    names = {base.__name__ for base in type(error).__mro__}
    if "UnsupportedError" not in names:
        return None
    return str(getattr(error, "what", error))


_NO_GPU = re.compile(r"Torch not compiled with CUDA|No CUDA GPUs are available|no NVIDIA driver")


def _calls_cuda(error: BaseException) -> str | None:
    """A call from the test, not from the engine, that ends in torch.cuda."""
    if _NO_GPU.search(str(error)):  # also in the output of a script that the test ran
        return CALLS_CUDA
    caller = ""
    torch_cuda = tuple(f"{folder}/cuda/" for folder in package_folders("torch"))
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(torch_cuda):
            return None if owner_of_file(caller) == "ttools" else CALLS_CUDA
        caller = frame.filename
    return None


def _reads_gpu_code(error: BaseException) -> str | None:
    """Assertions on the text of stages that only a GPU backend has."""
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
            # What Triton 3.6 does not do yet.
            r"(current implementation of `cat` always may reorder elements)",
            r"(Cache modifier \.cs not supported)",
            r"(lhs_scale must be a tensor) of shape \[\d+, \d+\]\. Got \['\d+', '\d+', '\d+'\]",
            r"(topk\(\) got an unexpected keyword argument 'descending')",
            r"('\w+' is not in list)",  # a field of a tuple that is a constant
            r"^(error encountered during parsing)$",  # of rows by 16-bit indices
        )
    ),
)


def _lacks_api(error: BaseException) -> str | None:
    """What the installed Triton does not have, or not yet, or no longer."""
    for pattern, told in _OTHER_TRITON:
        found = re.search(pattern, str(error))
        if found:
            return told.format(found[1])
    return None


def _lacks_module(error: BaseException) -> str | None:
    """A Python module that is not installed, unless it is one of ours."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if not name or name.split(".")[0] in ("ttools", "llvmlite", "numpy", "torch", "triton"):
        return None
    return f"the Python module `{name}` is not installed"


_FINDING = re.compile(r": ((?:error|warning)\[\w+\]): (.*)")


def finding(error: BaseException) -> tuple[str, str] | None:
    """The first finding of a test that the sanitizer fails: its check, and what it says."""
    found = _FINDING.search(str(error)) if type(error).__name__ == "Failed" else None
    return (found[1], found[2]) if found else None


Rule = Callable[[BaseException], "str | None"]
EXCLUSIONS: tuple[Rule, ...] = (_calls_cuda, _reads_gpu_code, _lacks_api, _lacks_module)
RULES: tuple[tuple[Status, Rule], ...] = (
    ("unsupported", _unsupported),
    *(("excluded", rule) for rule in EXCLUSIONS),
)


def judge(error: BaseException) -> tuple[Status, str, str]:
    """Returns status, reason and detail of a case that failed with `error`."""
    chain = list(causes(error))
    told = finding(error)
    if told is not None:
        return "wrong", told[0], told[1]
    for status, rule in RULES:
        for one in chain:
            reason = rule(one)
            if reason is not None:
                return status, reason, ""
    return "wrong", type(error).__name__, _told(chain)


def _told(chain: list[BaseException]) -> str:
    """The message, and the innermost place that is neither torch's nor NumPy's, on one line."""
    error = chain[0]
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in frames
        if owner_of_file(frame.filename) not in ("torch", "numpy")
    ]
    text = " ".join(str(error).split())
    if len(text) > DETAIL_WIDTH:  # Triton quotes the kernel first, and says what is wrong last
        text = f"{text[: DETAIL_WIDTH // 2]} … {text[-DETAIL_WIDTH // 2 :]}"
    return f"{text} (at {places[-1]})" if places else text
