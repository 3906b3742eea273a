"""Finds parameters whose specialisation makes Triton recompile a kernel, and its benefit.

Triton compiles separate variants of a kernel for an integer argument that is 1, one that is
divisible by 16, and any other one. For example, a kernel that is launched with `num_seqs` 2, 1 and
16 is compiled three times. With `do_not_specialize`, there is only one variant. To determine what
this costs, that variant is compiled as well, and the widths of its accesses to global memory are
compared with those of the most specialised variant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.stages import compile_for
from ttools.core.location import SourceLocation


@dataclass(frozen=True, kw_only=True)
class NarrowedAccess:
    """A line whose accesses to global memory become narrower if a parameter is not specialised.

    Attributes:
        location: The line of the kernel; None if it is unknown.
        before: Bits of the narrowest access with the specialisation.
        now: Bits of the narrowest access without it.
    """

    location: SourceLocation | None
    before: int
    now: int


@dataclass(frozen=True, kw_only=True)
class Recompilation:
    """A parameter whose specialisation causes compilations of a kernel.

    Attributes:
        kernel: Name of the kernel.
        target: Name of the target.
        parameter: Name of the parameter, or several names separated by commas if a compilation is
            avoided only when none of these parameters is specialised.
        specialisations: The specialisations of the parameter, in the order of their compilation.
        compilations: Number of compilations of the kernel for the target.
        avoidable: Number of compilations that do not occur without the specialisation.
        remedy: The argument of `triton.jit` that avoids these compilations.
        narrowed: Accesses that become narrower without the specialisation.
    """

    kernel: str
    target: str
    parameter: str
    specialisations: tuple[str, ...]
    compilations: int
    avoidable: int
    remedy: str
    narrowed: tuple[NarrowedAccess, ...]

    @property
    def cost(self) -> str:
        """Describe what the remedy costs, as far as it is determined without running the kernel."""
        if not self.narrowed:
            return "no access to global memory becomes narrower"
        parts = [
            f"line {e.location.line if e.location else '?'} from {e.before} to {e.now} bits"
            for e in self.narrowed
        ]
        return f"accesses become narrower: {', '.join(dict.fromkeys(parts))}"

    def lines(self) -> list[str]:
        """Describe the recompilations and their remedy, in two lines."""
        cause = (
            f"`{self.kernel}` was compiled {self.compilations} times for {self.target}; "
            f"`{self.parameter}` causes {self.avoidable} of these compilations "
            f"({'; '.join(self.specialisations)})"
        )
        return [cause, f"  help: `@triton.jit({self.remedy})` avoids them; {self.cost}"]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        narrowed = [
            {"line": e.location.line if e.location else None, "before": e.before, "now": e.now}
            for e in self.narrowed
        ]
        fields = {**vars(self), "specialisations": list(self.specialisations)}
        return {**fields, "narrowed": narrowed}


def recompilations(inspections: Sequence[Inspection]) -> list[Recompilation]:
    """Return the parameters that cause compilations, those with the most compilations first.

    The kernel is compiled once more for each such parameter.

    Raises:
        CompilationError: Triton's compiler rejects the kernel without the specialisation.
    """
    groups: dict[tuple[Any, str], list[Inspection]] = {}
    for inspection in inspections:
        if inspection.source.function is not None:
            key = (inspection.source.function, inspection.target.name)
            groups.setdefault(key, []).append(inspection)
    items = [item for group in groups.values() if len(group) > 1 for item in _of_kernel(group)]
    return sorted(items, key=lambda item: -item.avoidable)


def _of_kernel(group: Sequence[Inspection]) -> Iterator[Recompilation]:
    sources = [inspection.source for inspection in group]
    specialised = [
        (index, parameter.name)
        for index, parameter in enumerate(sources[0].function.params)
        if not parameter.is_constexpr and len(_kinds(sources, parameter.name)) > 1
    ]
    single = [item for entry in specialised if (item := _avoided(group, [entry]))]
    yield from single
    # If two arguments are 1 in exactly the same launches, a compilation is avoided only if neither
    # of them is specialised.
    if len(specialised) > 1:
        together = _avoided(group, specialised, more_than=sum(item.avoidable for item in single))
        if together is not None:
            yield together


def _kinds(sources: Sequence[KernelSource], name: str) -> list[str]:
    return list(dict.fromkeys(source.parameters()[name] for source in sources))


def _avoided(
    group: Sequence[Inspection], parameters: Sequence[tuple[int, str]], more_than: int = 0
) -> Recompilation | None:
    """Return the compilations that are avoided if the given parameters are not specialised.

    Args:
        group: The compilations of a kernel for a target.
        parameters: Indices and names of the parameters.
        more_than: Return None unless more than this number of compilations is avoided.
    """
    sources = [inspection.source for inspection in group]
    general = sources
    for index, name in parameters:
        general = [_generalised(source, index, name, sources) for source in general]
    avoidable = len(set(sources)) - len(set(general))
    if avoidable <= more_than:
        return None
    widest = max(range(len(group)), key=lambda n: len(sources[n].hints))
    prefixes = [f"{name}: " if len(parameters) > 1 else "" for _, name in parameters]
    return Recompilation(
        kernel=sources[0].name,
        target=group[0].target.name,
        parameter=", ".join(name for _, name in parameters),
        specialisations=tuple(
            f"{prefix}{kind}"
            for prefix, (_, name) in zip(prefixes, parameters, strict=True)
            for kind in _kinds(sources, name)
        ),
        compilations=len(set(sources)),
        avoidable=avoidable,
        remedy=_remedy(sources, [name for _, name in parameters]),
        narrowed=_narrowed(group[widest], general[widest]),
    )


def _remedy(sources: Sequence[KernelSource], parameters: Sequence[str]) -> str:
    function = sources[0].function
    named: dict[str, list[str]] = {}
    for name in parameters:
        is_pointer = any(str(source.signature[name]).startswith("*") for source in sources)
        option = "do_not_specialize_on_alignment" if is_pointer else "do_not_specialize"
        named.setdefault(option, _names(function, option)).append(name)
    texts = []
    for option, names in named.items():
        listed = ", ".join(f'"{name}"' for name in names)
        texts.append(f"{option}=[{listed}]")
    return ", ".join(texts)


def _generalised(
    source: KernelSource, index: int, name: str, sources: Sequence[KernelSource]
) -> KernelSource:
    """Return a source in which a parameter is not specialised; only its type remains."""
    types = [s.signature[name] for s in sources if s.signature[name] != "constexpr"]
    kind = source.signature[name]
    if kind == "constexpr":
        if type(source.constants.get((index,))) is not int:
            return source  # None and other values select code, which no option changes
        kind = types[0] if types else "i32"
    return replace(
        source,
        signature={**source.signature, name: kind},
        constants=_without(source.constants, index),
        hints=_without(source.hints, index),
        compiled=None,
    )


def _without(entries: Mapping[tuple[int, ...], Any], index: int) -> dict[tuple[int, ...], Any]:
    return {path: value for path, value in entries.items() if path[0] != index}


def _names(function: Any, option: str) -> list[str]:
    """Return the parameters that an option of `triton.jit` already names."""
    named = getattr(function, option, None) or ()
    return [function.arg_names[n] if isinstance(n, int) else n for n in named]


def _narrowed(inspection: Inspection, general: KernelSource) -> tuple[NarrowedAccess, ...]:
    """Return the lines whose accesses are narrower in the general variant than in this one."""
    before = _narrowest(inspection)
    now = _narrowest(Inspection(compile_for(general, inspection.target)))
    return tuple(
        NarrowedAccess(location=location, before=bits, now=now[location, kind])
        for (location, kind), bits in before.items()
        if now.get((location, kind), bits) < bits
    )


def _narrowest(inspection: Inspection) -> dict[tuple[SourceLocation | None, str], int]:
    """Return the width in bits of the narrowest access for each source line and kind of access."""
    narrowest: dict[tuple[SourceLocation | None, str], int] = {}
    for access in inspection.accesses:
        key = (access.location, access.kind)
        if access.bits:
            narrowest[key] = min(access.bits, narrowest.get(key, access.bits))
    return narrowest
