"""Notes on constants of a kernel that host code chooses differently for other batch sizes.

Two launches of a run are compared if the same line makes them and if their tensors differ only in
one extent, which an output also has. If a constant of the kernel differs between them, such as a
number of parts or the size of a block, the bits of a row may depend on the batch. Constants that
are proportional to this extent are ignored, because they only describe it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ttools.core.findings.findings import Finding
from ttools.core.spec import ArgumentSpec, TensorSpec
from ttools.ir.dialects.traits import ATOMIC, CROSS_LANE, LOOP
from ttools.sanitizer.checks.reproducibility import Reproducibility
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.reproducibility.host_choices import chosen_constants, derived_constants

#: Maximum number of launches that are remembered for each line.
_MOST_REMEMBERED = 16


@dataclass(frozen=True)
class _Choice:
    """The tensors and constants that host code passes to a kernel.

    Attributes:
        tensors: The tensors by name.
        outputs: Names of the tensors that the kernel may write.
        constants: Values of `tl.constexpr` parameters and the number of warps, by name.
    """

    tensors: Mapping[str, ArgumentSpec]
    outputs: frozenset[str]
    constants: Mapping[str, Any]


class DerivedConstants:
    """The launches of a run, kept to compare their constants."""

    def __init__(self) -> None:
        self._earlier: dict[tuple[str, str | None], list[_Choice]] = {}
        self._reported: set[tuple[str, str | None, str]] = set()

    def findings(self, checked: CheckedLaunch) -> Iterator[Finding]:
        """Yield a note for each constant that differed in an earlier launch of another size."""
        spec = checked.spec
        key = spec.kernel, spec.site.line
        module = checked.kernel.module
        if not any(op.has(CROSS_LANE, LOOP, ATOMIC) for op in module.kernel.walk()):
            return  # nothing is combined, so the constants cannot change an order
        tensors = {a.name: a for a in spec.arguments if a.tensor}
        written = checked.launch.kernel.variants.effects.written
        outputs = frozenset(spec.arguments[n].name for n in written)
        own = _Choice(tensors, outputs, chosen_constants(checked.launch))
        earlier = self._earlier.setdefault(key, [])
        for other in earlier:
            change = _change(other, own)
            if change is None:
                continue
            argument, axis, before, after = change
            for name in derived_constants(other.constants, own.constants, Fraction(after, before)):
                if (*key, name) not in self._reported:
                    self._reported.add((*key, name))
                    yield Reproducibility(checked).finding(
                        "derived_constant",
                        f"`{name}` is {other.constants[name]!r} if axis {axis} of "
                        f"`{argument.name}` has the extent {before:,}, and "
                        f"{own.constants[name]!r} if it has the extent {after:,}",
                        location=module.kernel.location,
                        argument=argument,
                    )
        if own not in earlier and len(earlier) < _MOST_REMEMBERED:
            earlier.append(own)


def _change(first: _Choice, second: _Choice) -> tuple[ArgumentSpec, int, int, int] | None:
    """Return the only extent in which two launches differ: argument, axis, both values.

    The result is None if no extent differs, or if several differ.
    """
    if first.tensors.keys() != second.tensors.keys():
        return None
    changes: list[tuple[ArgumentSpec, int, int, int]] = []
    for name, argument in second.tensors.items():
        one, other = first.tensors[name].tensor, argument.tensor
        if not (isinstance(one, TensorSpec) and isinstance(other, TensorSpec)):
            return None
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            return None
        changes += [
            (argument, axis, before, after)
            for axis, (before, after) in enumerate(zip(one.shape, other.shape, strict=True))
            if before != after
        ]
    pairs = {(before, after) for _, _, before, after in changes}
    arguments = {argument.name for argument, *_ in changes}
    if len(pairs) != 1 or len(arguments) != len(changes) or 0 in next(iter(pairs)):
        return None
    return changes[0] if arguments & second.outputs else None
