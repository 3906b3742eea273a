"""Failures as pytest files: torch, the user's files and the inputs, without ttools.

A file holds the arguments of the failing call, and of those before it, byte by byte. Where the
kernel runs is the user's business: on a GPU, or under Triton's interpreter.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

from ttools.core.errors import UsageError
from ttools.verifier.report.text import circumstances
from ttools.verifier.result import Failure
from ttools.verifier.workers.wire import TensorImage

_FILE = Template('''"""$title"""

import importlib.util
import os
import sys

if not os.path.exists("/dev/nvidia0"):
    os.environ.setdefault("TRITON_INTERPRET", "1")  # no GPU: Triton's own interpreter

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def load(file, name):
    """A function of a file."""
    spec = importlib.util.spec_from_file_location("judged", file)
    found = sys.modules["judged"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def tensor(dtype, shape, strides, offset, data, requires_grad):
    """A tensor with these bytes in its storage."""
    whole = torch.tensor(list(bytes.fromhex(data)), dtype=torch.uint8).to(DEVICE)
    found = torch.empty(0, dtype=getattr(torch, dtype), device=DEVICE)
    found.set_(whole.untyped_storage(), offset, shape, strides)
    return found.requires_grad_(requires_grad)


#: Of each call: whether it uses the tensors of the one before again, and its arguments.
CALLS = [
$calls]
INPLACE = $inplace


def test_$name():
    reference = load($reference)
    candidate = load($candidate)
    kept, last = [], None
    for again, arguments in CALLS:
        if again:
            for key, value in arguments.items():
                if isinstance(value, torch.Tensor):
                    last[key].data.copy_(value)
            arguments = last
        before, wanted_arguments = copied(arguments), copied(arguments)
        wanted = reference(**wanted_arguments)
        torch.empty(1 << 16, device=DEVICE).fill_(float("nan"))  # what is not written shows
        found = candidate(**arguments)
        compare(found, wanted)
        for key, value in before.items():
            if isinstance(value, torch.Tensor):
                if key in INPLACE:
                    compare(arguments[key], wanted_arguments[key])
                else:
                    assert torch.equal(bits(value), bits(arguments[key])), f"{key} was changed"
        for result, copy in kept:
            assert torch.equal(bits(result), bits(copy)), "a later call changed a result"
        if not INPLACE:
            kept += [(e, e.detach().clone()) for e in parts(found) if isinstance(e, torch.Tensor)]
        last = arguments


def copied(arguments):
    return {
        key: value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for key, value in arguments.items()
    }


def parts(value):
    return [p for e in value for p in parts(e)] if isinstance(value, (tuple, list)) else [value]


def bits(value):
    plain = value.detach().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8)


def compare(found, wanted):
    found, wanted = parts(found), parts(wanted)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        if isinstance(other, torch.Tensor):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            relative = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(other.dtype, 1e-4)
            exact = not other.dtype.is_floating_point
            torch.testing.assert_close(
                one, other, rtol=0 if exact else relative, atol=0 if exact else 1e-5, equal_nan=True
            )
        else:
            assert one == other
''')
#: Classes that results alone do not show: who computed them, accesses outside, orders.
WITHOUT_TEST = frozenset({"not_computed_by_kernel", "race", "nondeterministic", "memory"})
#: Larger inputs are not written into a file.
_MOST_BYTES = 1 << 16

Calls = list[tuple[bool, dict[str, Any]]]


def write_test(
    failure: Failure, calls: Calls, inplace: list[str], subject: dict[str, str], folder: Path
) -> str | None:
    """Writes the test of a failure.

    Args:
        failure: what it shows.
        calls: the arguments of each call as images, and whether it uses the last one's tensors.
        inplace: arguments that the candidate may change.
        subject: `candidate` and `reference` as `FILE.py:NAME`.
        folder: of the tests; it is made.

    Returns:
        The file; None where results alone do not show the failure, or the inputs are large.

    Raises:
        UsageError: the file cannot be written.
    """
    if failure.failure in WITHOUT_TEST or failure.config is not None:
        return None
    texts = []
    for again, arguments in calls:
        entries = [f"            {key!r}: {_put(value)}," for key, value in arguments.items()]
        texts.append("\n".join([f"    ({again}, {{", *entries, "    }),", ""]))
    body = "".join(texts)
    if len(body) > 2 * _MOST_BYTES:
        return None
    name = f"{subject['candidate'].rpartition(':')[2].replace('.', '_')}_{failure.failure}"
    title = f"{failure.failure}: {failure.detail}; at {circumstances(failure)}."
    text = _FILE.substitute(
        title=title.replace("\\", "/").replace('"', "'").replace("\n", " "),
        calls=body,
        inplace=repr(inplace),
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


def _put(value: Any) -> str:
    if isinstance(value, TensorImage):
        place = f"{value.dtype!r}, {value.shape}, {value.strides}, {value.offset}"
        return f"tensor({place}, {value.data.hex()!r}, {value.requires_grad})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_put(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_put, value)) + ("," if isinstance(value, tuple) else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
