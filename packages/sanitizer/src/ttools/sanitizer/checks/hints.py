"""The check `hints`: hints of a kernel to the compiler that its data contradict.

This module checks arguments; `passes.hints.bad_hint` checks values inside the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from ttools.core.findings.findings import Finding
from ttools.ir import Module
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.hints.constants import constant_names
from ttools.sanitizer.hints.source import ArgumentHint, source_hints
from ttools.sanitizer.passes.hints import bad_hint
from ttools.sanitizer.passes.rewrites import Pass

_PASS = Pass("hints", "hints", bad_hint.apply)
_MESSAGES = {
    "specialisation": "the kernel was compiled for a `{name}` that is a multiple of {divisor}",
    "source": "`{name}` contradicts the hint tl.multiple_of(…, {divisor})",
}
_HELP_SPECIALISATION = (
    "launch the function instead of the compiled kernel, or pass data that it was compiled for"
)


class Hints(Check):
    """Finds wrong `tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy` and `tl.assume`."""

    name = "hints"
    page = "reference/findings.md#overflow-and-hints"
    data_hooks = frozenset[str]()
    seeks = "wrong hints"
    kinds: ClassVar[Kinds] = {
        "bad_hint": Kind(
            severity="error",
            meaning="The data contradicts `multiple_of`, `max_contiguous`, `max_constancy` or "
            "`assume`, or the specialisation of a compiled kernel that is launched again.",
            help="remove the hint, or pass data that satisfies it",
        )
    }

    def passes(self) -> Sequence[Pass]:
        return (_PASS,) if self.checked.kernel.fact(bad_hint.may_report) else ()

    def findings(self) -> Iterator[Finding]:
        """Yield findings for arguments that a hint's divisor does not divide."""
        launch = self.checked.launch
        hints = self.checked.kernel.remember(
            _argument_hints,
            lambda: _argument_hints(
                self.checked.kernel.module, launch.kernel.plan.names, constant_names(launch)
            ),
        )
        values = launch.raw_parameters
        if any(values[hint.parameter] % hint.divisor for hint in hints):
            # `raw_parameters` may hold copies of device memory at other addresses.
            values = launch.kernel.plan.pack(launch.arguments, guarded=True)
            for hint in hints:
                if values[hint.parameter] % hint.divisor:
                    yield self._wrong(hint, values[hint.parameter])

    def _wrong(self, hint: ArgumentHint, value: int) -> Finding:
        argument = self.checked.spec.argument(hint.parameter)
        is_address = argument is not None and argument.shape is not None
        text = f"address {value:#x}" if is_address else f"value {value}"
        name = argument.name if argument else f"parameter {hint.parameter}"
        fields = {"help": _HELP_SPECIALISATION} if hint.by == "specialisation" else {}
        return self.finding(
            "bad_hint",
            _MESSAGES[hint.by].format(name=name, divisor=hint.divisor),
            argument=argument,
            location=hint.location,
            notes=(f"its {text} is not a multiple",),
            **fields,
        )


def _argument_hints(
    module: Module, names: Sequence[str], constants: Mapping[str, object]
) -> tuple[ArgumentHint, ...]:
    """Return the divisors that Triton specialised a kernel for, and the hints in its source.

    Usually, Triton compiles a kernel again if the arguments require another specialisation. It does
    not do so if the compiled kernel itself is launched, as in `kernel.warmup(...)[grid](...)`.
    """
    location = module.kernel.location
    compiled = (
        ArgumentHint(index, divisor, location, "specialisation")
        for index, divisor in bad_hint.specialised(module).items()
    )
    written = () if location is None else source_hints(location, names, constants)
    return (*compiled, *written)
