"""Writes failures as pytest files that need only torch, Triton and the user's files.

A file contains the bytes of the arguments of the failing call and of earlier calls. The kernel runs
on a GPU, or under Triton's interpreter if there is none. If wrong values cannot show the failure,
the test uses ttools' checks or torch's modes, and the file explains this. No test needs
`ttools verify`. The texts are in `test_templates/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from ttools.core.errors import UsageError
from ttools.verifier.cases.tensors import TensorImage
from ttools.verifier.report.text import circumstances
from ttools.verifier.result import Failure

_PLAIN_ENVIRONMENT = """
if not os.path.exists("/dev/nvidia0"):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # no GPU: Triton's own interpreter
"""
_PLAIN_DEVICE = '"cuda" if torch.cuda.is_available() else "cpu"'
#: Size limit of the inputs in a file, in bytes.
_MOST_BYTES = 1 << 16

Calls = Sequence[tuple[bool | str, dict[str, Any]]]


def write_test(
    failure: Failure,
    evidence: dict[str, Any],
    calls: Calls,
    inplace: list[str],
    subject: dict[str, str],
    folder: Path,
) -> str | None:
    """Write the test of a failure.

    Args:
        failure: Failure that the test shows.
        evidence: Evidence as in `Mismatch`; empty if values show the failure.
        calls: Arguments of each call as images, and whether it uses the previous call's tensors.
        inplace: Names of the arguments that the candidate may change.
        subject: `candidate` and `reference` as `FILE.py:NAME`.
        folder: Folder for the test, which is created if it does not exist.

    Returns:
        The path of the file; None if no file was written. This is the case if the failure does
        not occur in each process, if only ttools' log of a launch or a replay shows it, if another
        call precedes the backward pass, or if the inputs are too large.

    Raises:
        UsageError: The file cannot be written.
    """
    if {"stored", "late", "replay"} & set(evidence) or (
        failure.failure == "nondeterministic" and not evidence
    ):
        return None
    body = _entries(calls)
    if len(body) > 2 * _MOST_BYTES:
        return None
    name = f"{subject['candidate'].rpartition(':')[2].replace('.', '_')}_{failure.failure}"
    title = f"{failure.failure}: {failure.detail}; at {circumstances(failure)}."
    template, how, fields = _kind(evidence)
    is_plain = not {"checks", "order"} & set(evidence)
    imports = "import subprocess\n" if not is_plain else ""
    environment = _PLAIN_ENVIRONMENT if is_plain else ""
    if "operator" in evidence:
        imports = "import threading\n"
        environment = '\nos.environ["TORCH_COMPILE_DISABLE"] = "1"  # so that operators are seen'
        environment += _PLAIN_ENVIRONMENT
    text = Template(_text("head") + template).substitute(
        fields,
        title=title.replace("\\", "/").replace('"', "'").replace("\n", " "),
        how=f"\n{how}\n" if how else "",
        environment=imports + environment,
        device=_PLAIN_DEVICE if is_plain else '"cpu"',
        calls=body,
        inplace=repr(inplace),
        shared=repr(failure.shared),
        config=repr(failure.config),
        weights=repr(failure.views.get("*", "contiguous")),
        name=name,
        reference=", ".join(map(repr, subject["reference"].rsplit(":", 1))),
        candidate=", ".join(map(repr, subject["candidate"].rsplit(":", 1))),
    )
    path = folder / f"test_{name}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error
    return str(path)


def _kind(evidence: dict[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Return the template for a failure, an explanation for the reader, and template fields."""
    if "checks" in evidence:
        how = (
            "Values need not show this failure, so the test runs ttools' checks. It"
            "\nneeds ttools-sanitizer, and runs the kernel on the CPU in a separate process."
        )
        main = Template(_text("checks")).safe_substitute(kinds=repr(evidence["checks"]))
        return _text("checked").replace("$main", main), how, {}
    if "order" in evidence:
        how = (
            "Only another order of programs shows this failure. The test"
            "\nneeds ttools-interpreter. It runs the kernel in that order in a separate process."
        )
        order, seed = evidence["order"]
        fields = {"order": repr(order), "order_seed": repr(seed)}
        return _text("checked").replace("$main", _text("order")), how, fields
    if "operator" in evidence:
        how = "Values do not show this failure, so torch's modes record which operators run."
        return _text("operator"), how, {"operator": "{!r}, {}".format(*evidence["operator"])}
    if "launches" in evidence:
        how = "Values do not show this failure. Without launches, the results must be wrong."
        return _text("launches"), how, {}
    if "touched" in evidence:
        return _text("touched"), "Values do not show this failure, so arguments are watched.", {}
    return _text("values"), "", {}


def _text(name: str) -> str:
    """Return a template; `head` is the beginning of all files."""
    return (Path(__file__).with_name("test_templates") / f"{name}.txt").read_text("utf-8")


def _entries(calls: Calls) -> str:
    texts_of_calls = []
    for again, arguments in calls:
        entries = [f"            {key!r}: {_put(value)}," for key, value in arguments.items()]
        texts_of_calls.append("\n".join([f"    ({again!r}, {{", *entries, "    }),", ""]))
    return "".join(texts_of_calls)


def _put(value: Any) -> str:
    if isinstance(value, TensorImage):
        spec = value.spec
        place = f"{spec.dtype!r}, {spec.shape}, {spec.strides}, {spec.element_offset}"
        return f"tensor({place}, {value.data.hex()!r}, {value.requires_grad})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_put(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_put, value)) + ("," if isinstance(value, tuple) else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
