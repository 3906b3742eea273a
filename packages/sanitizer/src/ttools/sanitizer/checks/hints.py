"""hints: what a kernel tells the compiler about its data, and the data contradict.

Owns what is said of arguments; which values inside a kernel break a hint is the business of
`passes.hints.bad_hint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from ttools.core.findings.findings import Finding
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.ir import Module
from ttools.sanitizer.checks.check import Check, Kind, Kinds
from ttools.sanitizer.hints.source import ArgumentHint, source_hints
from ttools.sanitizer.passes.hints import bad_hint
from ttools.sanitizer.passes.rewrites import Pass

_PASS = Pass("hints", "hints", bad_hint.apply)
_MESSAGES = {
    "specialisation": "the kernel was compiled for a multiple of {divisor} in `{name}`",
    "source": "`{name}` contradicts the hint tl.multiple_of(…, {divisor})",
}
_HELP_SPECIALISATION = (
    "launch the function instead of the compiled kernel, or pass data as it was compiled for"
)


class Hints(Check):
    """Wrong `tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy` and `tl.assume`."""

    name = "hints"
    seeks = "wrong hints"
    kinds: ClassVar[Kinds] = {
        "bad_hint": Kind(
            severity="error",
            meaning="The data contradict `multiple_of`, `max_contiguous`, `max_constancy`, "
            "`assume`, or what a compiled kernel that is launched again was specialised for.",
            help="remove the hint, or pass data that satisfy it",
        )
    }

    def passes(self) -> Sequence[Pass]:
        return (_PASS,) if self.checked.kernel.fact(bad_hint.may_report) else ()

    def findings(self) -> Iterator[Finding]:
        """Arguments that are not divisible as their kernel says."""
        launch = self.checked.launch
        given = self.checked.kernel.remember(_argument_hints, self._given)
        values = launch.raw_parameters
        if any(values[each.parameter] % each.divisor for each in given):
            # Copies of device memory may lie at other addresses.
            values = launch.kernel.plan.pack(launch.arguments, guarded=True)
            for each in given:
                if values[each.parameter] % each.divisor:
                    yield self._wrong(each, values[each.parameter])

    def _given(self) -> Sequence[ArgumentHint]:
        launch = self.checked.launch
        return _argument_hints(
            self.checked.kernel.module, launch.kernel.plan.names, _known_names(launch)
        )

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
    module: Module, names: Sequence[str], known: Mapping[str, object]
) -> tuple[ArgumentHint, ...]:
    """What Triton compiled a kernel for, and the hints in its source.

    Triton compiles anew for every launch that needs it, unless the compiled kernel itself is
    launched: `kernel.warmup(...)[grid](...)`.
    """
    location = module.kernel.location
    compiled = (
        ArgumentHint(index, divisor, location, "specialisation")
        for index, divisor in bad_hint.specialised(module).items()
    )
    written = () if location is None else source_hints(location, names, known)
    return (*compiled, *written)


def _known_names(launch: KernelLaunch) -> Mapping[str, object]:
    """What names in the kernel's source mean that are none of its run-time parameters."""
    known = dict(getattr(getattr(launch.kernel.function, "fn", None), "__globals__", {}))
    names = getattr(getattr(launch.kernel.source, "fn", None), "arg_names", ())
    for path, value in getattr(launch.kernel.source, "constants", {}).items():
        index, *inside = path if isinstance(path, tuple) else (path,)
        if not inside and index < len(names):
            known[names[index]] = value
    return known
