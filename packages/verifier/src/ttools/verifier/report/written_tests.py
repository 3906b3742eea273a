"""Writes failures as pytest files that need only torch, Triton and the user's files.

A file creates the arguments of the failing call and of earlier calls: it calls `inputs` with the
seed, and then gives the tensors their memory layouts and special values. If `inputs` returns
different values in another process, the file contains the bytes of the arguments instead. The
kernel runs on a GPU, or under Triton's interpreter if there is none. If wrong values cannot show
the failure, the test uses ttools' checks, torch's modes or, as a last resort,
`ttools.verifier.verify` with the cases up to the failing one, and the file explains this. The texts
are in `test_templates/`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

from ttools.core.errors import UsageError
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, elements, laid_out
from ttools.verifier.cases.values import changed, kind_of
from ttools.verifier.report.text import circumstances
from ttools.verifier.result import Failure

_PLAIN_ENVIRONMENT = """
if not os.path.exists("/dev/nvidia0"):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # no GPU: Triton's own interpreter
"""
_PLAIN_DEVICE = '"cuda" if torch.cuda.is_available() else "cpu"'
#: Maximum size in bytes of the inputs that a file may contain.
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments of a call.

    Attributes:
        case: Case of the call.
        arguments: Images of the arguments, by name.
        drawn: The values that `inputs` returned, as images.
        source: Source of the arguments of `inputs`; None if `inputs` does not return the same
            values in every process.
    """

    case: Case
    arguments: dict[str, Any]
    drawn: dict[str, Any]
    source: str | None = None


def write_test(
    failure: Failure,
    evidence: dict[str, Any],
    calls: Sequence[Call],
    inplace: list[str],
    subject: dict[str, str],
    folder: Path,
) -> str | None:
    """Write a test that shows a failure.

    Args:
        failure: Failure that the test shows.
        evidence: Evidence as in `Mismatch`; empty if wrong values show the failure.
        calls: Calls up to the failing one.
        inplace: Names of the arguments that the candidate may change.
        subject: `candidate`, `reference` and `inputs` as `FILE.py:NAME`.
        folder: Folder for the test, which is created if it does not exist.

    Returns:
        The path of the file; None if no file was written. This is the case if the failure does not
        occur in every process, if only ttools' log of a launch or a replay shows it, if it is an
        effect on torch or on attributes of arguments, if another call precedes the backward pass,
        if gradients are computed from one of several results or repeatedly, or if the inputs are
        too large.

    Raises:
        UsageError: The file cannot be written.
    """
    if {"stored", "late", "replay", "effect"} & set(evidence) or (
        failure.failure == "nondeterministic" and not evidence
    ):
        return None
    if failure.only_output or failure.passes != "once":
        return None
    body, helpers = _made(calls)
    if len(body) > 2 * _MOST_BYTES:
        return None
    words = {key: ", ".join(map(repr, word.rsplit(":", 1))) for key, word in subject.items()}
    template, how, fields = _kind(evidence)
    is_plain = not {"checks", "order"} & set(evidence)
    imports = "import subprocess\n" if not is_plain else ""
    environment = _PLAIN_ENVIRONMENT if is_plain else ""
    if "operators" in evidence:
        imports = "import threading\n"
        environment = '\nos.environ["TORCH_COMPILE_DISABLE"] = "1"  # so that operators are seen'
        environment += _PLAIN_ENVIRONMENT
    text = Template(_text("head") + template).substitute(
        fields,
        title=_title(failure),
        how=f"\n{how}\n" if how else "",
        environment=imports + environment,
        device=_PLAIN_DEVICE if is_plain else '"cpu"',
        helpers=Template(helpers).safe_substitute(inputs=words["inputs"]),
        calls=body,
        inplace=repr(inplace),
        shared=repr(failure.shared),
        config=repr(failure.config),
        weights=repr(failure.views.get("*", "contiguous")),
        name=_name(failure, subject),
        **words,
    )
    return _write(text, failure, subject, folder)


def write_run(
    failure: Failure, options: dict[str, Any], subject: dict[str, str], folder: Path
) -> str:
    """Write a test that runs the first cases of the plan again, for a failure that needs ttools.

    Args:
        failure: Failure that the test shows.
        options: Options of `verify()`: the number of cases and the seed.
        subject: `candidate`, `reference` and `inputs` as `FILE.py:NAME`.
        folder: Folder for the test, which is created if it does not exist.

    Raises:
        UsageError: The file cannot be written.
    """
    text = Template(_text("verified")).substitute(
        title=_title(failure),
        name=_name(failure, subject),
        failure=repr(failure.failure),
        words="".join(f"        {word!r},\n" for word in subject.values()),
        options=", ".join(f"{name}={value!r}" for name, value in options.items()),
    )
    return _write(text, failure, subject, folder)


def _title(failure: Failure) -> str:
    title = f"{failure.failure}: {failure.detail}; at {circumstances(failure)}."
    title = title.replace("\\", "/").replace('"', "'")
    return "\n".join(textwrap.wrap(title, 95, break_long_words=False, break_on_hyphens=False))


def _name(failure: Failure, subject: dict[str, str]) -> str:
    return f"{subject['candidate'].rpartition(':')[2].replace('.', '_')}_{failure.failure}"


def _write(text: str, failure: Failure, subject: dict[str, str], folder: Path) -> str:
    path = folder / f"test_{_name(failure, subject)}.py"
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
            "Values may not reveal this failure, so the test runs ttools' checks. It"
            "\nneeds ttools-sanitizer, and runs the kernel on the CPU in a separate process."
        )
        main = Template(_text("checks")).safe_substitute(kinds=repr(evidence["checks"]))
        return _text("checked").replace("$main", main), how, {}
    if "order" in evidence:
        how = (
            "This failure occurs only in another order of programs. The test"
            "\nneeds ttools-interpreter. It runs the kernel in that order in a separate process."
        )
        order, seed = evidence["order"]
        fields = {"order": repr(order), "order_seed": repr(seed)}
        return _text("checked").replace("$main", _text("order")), how, fields
    if "operators" in evidence:
        how = "Values do not reveal this failure, so torch's modes record which operators run."
        return _text("operators"), how, {"operators": "{!r}, {}".format(*evidence["operators"])}
    if "launches" in evidence:
        how = "Values do not reveal this failure. Without launches, the results must be wrong."
        return _text("launches"), how, {}
    if "touched" in evidence:
        return _text("touched"), "Values do not reveal this failure, so arguments are watched.", {}
    return _text("values"), "", {}


def _text(name: str) -> str:
    """Return a template; `head` is the beginning of most files."""
    return (Path(__file__).with_name("test_templates") / f"{name}.txt").read_text("utf-8")


# ---- arguments
def _made(calls: Sequence[Call]) -> tuple[str, str]:
    """Return the source of functions that make the calls' arguments, and of their helpers."""
    functions: list[str] = []
    sources: dict[str, str] = {}
    for number, call in enumerate(calls, 1):
        lines, needed = _from_inputs(call) if call.source is not None else _from_bytes(call)
        sources |= needed
        functions.append("\n".join([f"def call_{number}():", *lines, "", "", ""]))
    listed = "".join(
        f"    ({call.case.reuse!r}, call_{number}),\n" for number, call in enumerate(calls, 1)
    )
    helpers = "\n\n\n".join(source.strip() for source in sources.values())
    return "".join(functions) + f"{_text('calls')}CALLS = [\n{listed}]", helpers


def _from_bytes(call: Call) -> tuple[list[str], dict[str, str]]:
    entries = [f"        {key!r}: {_put(value)}," for key, value in call.arguments.items()]
    return ["    return {", *entries, "    }"], {"tensor": _text("tensor")}


def _from_inputs(call: Call) -> tuple[list[str], dict[str, str]]:
    """Return lines that call `inputs` and change its results, and the functions the lines need."""
    lines = [f"    arguments = drawn({call.source})"]
    needed = {"drawn": _text("drawn")}
    for key, image in call.arguments.items():
        is_replaced = call.case.shared is not None and key == call.case.shared[1]
        if image == call.drawn[key] or is_replaced:
            continue
        change = _change(key, call.drawn[key], image, call.case)
        if change is None:
            change = _put(image), {"tensor": _text("tensor")}
        lines.append(f"    arguments[{key!r}] = {change[0]}")
        needed |= change[1]
    return [*lines, "    return on_device(arguments)"], needed


def _change(key: str, drawn: Any, image: Any, case: Case) -> tuple[str, dict[str, str]] | None:
    """Return an expression that creates an argument from a tensor that `inputs` returned.

    Returns:
        The expression, and the sources of the functions that it uses, by name; None if no such
        expression creates the argument.
    """
    if not isinstance(drawn, TensorImage):
        return None
    name = case.values_of.get(key, case.values)
    plain = f"arguments[{key!r}]"
    values = elements(drawn)
    for kind in (None, kind_of(name, values.dtype)) if name != "drawn" else (None,):
        if kind is not None:
            values = changed(values, name, is_finite=False)
        for view in ("contiguous", case.views.get(key, case.views.get("*", "contiguous"))):
            made = replace(laid_out(values, view), requires_grad=image.requires_grad)
            if made != image:
                continue
            value = plain if kind is None else f"(lambda x: {kind.expression})({plain})"
            needed = {} if kind is None else kind.sources()
            spec = image.spec
            place = f"{spec.strides}, {spec.element_offset}, {len(image.data)}"
            needed["strided"] = _text("strided")
            return f"strided({value}, {place}, {image.requires_grad})", needed
    return None


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
