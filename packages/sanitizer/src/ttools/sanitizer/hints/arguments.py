"""What a kernel says of its arguments: what Triton compiled it for, and hints in its source.

Triton compiles anew for every launch that needs it, unless the compiled kernel itself is launched:
`kernel.warmup(...)[grid](...)`. Must not know what a wrong hint means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ttools.core.location import SourceLocation
from ttools.interpreter.ir import Module
from ttools.sanitizer.hints.source import source_hints
from ttools.sanitizer.passes.hints import specialised


@dataclass(frozen=True)
class ArgumentHint:
    """Something that divides an argument.

    Attributes:
        parameter: its index.
        divisor: of the number or, in bytes, of the address.
        location: of the kernel, or of the hint.
        by: who says so.
    """

    parameter: int
    divisor: int
    location: SourceLocation | None
    by: Literal["specialisation", "source"]


def argument_hints(
    module: Module, names: Sequence[str], known: Mapping[str, Any]
) -> tuple[ArgumentHint, ...]:
    """Everything that a kernel says of its arguments.

    Args:
        module: the kernel.
        names: of its parameters.
        known: values of its constexpr parameters, and what its global names mean.
    """
    location = module.kernel.location
    compiled = [
        ArgumentHint(index, divisor, location, "specialisation")
        for index, divisor in specialised(module).items()
    ]
    found = [] if location is None else source_hints(location, names, known)
    written = (
        ArgumentHint(names.index(each.parameter), each.divisor, each.location, "source")
        for each in found
    )
    return (*compiled, *written)
