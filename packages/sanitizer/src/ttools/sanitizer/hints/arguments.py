"""What a kernel says of its arguments: what Triton compiled it for, and hints in its source.

Triton compiles anew for every launch that needs it, unless the compiled kernel itself is launched:
`kernel.warmup(...)[grid](...)`. Must not know what a wrong hint means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttools.interpreter.ir import Module
from ttools.sanitizer.hints.source import ArgumentHint, source_hints
from ttools.sanitizer.passes.hints.bad_hint import specialised


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
    compiled = (
        ArgumentHint(index, divisor, location, "specialisation")
        for index, divisor in specialised(module).items()
    )
    written = () if location is None else source_hints(location, names, known)
    return (*compiled, *written)
