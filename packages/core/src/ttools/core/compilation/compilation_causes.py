"""The causes of compilations: how a variant of a kernel differs from the most similar earlier one.

Triton compiles another variant if an integer argument changes between the classes 1, multiple of 16
and any other value; if a pointer's alignment to 16 bytes changes; if a type, a constant, the block
of a descriptor or an option changes; and if the kernel is decorated again.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ttools.core.compilation.compilation_log import LoggedCompilation
from ttools.core.compilation.kernel_source import KernelSource

Kind = Literal[
    "integer value",
    "integer width",
    "None",
    "dtype",
    "constexpr",
    "descriptor",
    "alignment",
    "pointer range",
    "type",
    "option",
    "environment",
    "device",
    "redefinition",
    "keywords",
    "cleared",
]

_MISSING = object()
#: Options that Triton reads from the environment, each with the variable that sets it.
_ENVIRONMENT = {
    "debug": "TRITON_DEBUG or `debug=`",
    "instrumentation_mode": "TRITON_INSTRUMENTATION_MODE",
    "fpsan_homomorphic_casts": "TRITON_FPSAN_HOMOMORPHIC_CASTS",
}
_LONGEST_VALUE = 40


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference between two variants of a kernel.

    Attributes:
        kind: The class of the difference.
        name: The parameter, such as `n` or `shape[1]`, the option or the captured variable.
        before: Description of its value in the earlier variant.
        now: Description of its value in the later variant.
    """

    kind: Kind
    name: str
    before: str
    now: str

    @property
    def remedy(self) -> str | None:
        """Return advice on how to avoid the compilation; None if there is none for this kind."""
        option = {
            "integer value": "do_not_specialize",
            "alignment": "do_not_specialize_on_alignment",
        }.get(self.kind)
        if option is not None and "[" not in self.name:
            return f'`@triton.jit({option}=["{self.name}"])`'
        if self.kind == "keywords":
            return "the same keywords at all launches"
        if self.kind == "redefinition":
            return "one decoration, at the top level of a module,"
        return None

    def __str__(self) -> str:
        if self.kind == "device":
            return f"another device: {self.now} (previously {self.before})"
        if self.kind == "redefinition":
            changed = f": {self.name} is {self.now} (previously {self.before})" if self.name else ""
            return f"the kernel was decorated again{changed}"
        if self.kind == "keywords":
            return (
                f"the same variant: the launch writes {self.now} and an earlier one {self.before}"
            )
        if self.kind == "cleared":
            return "the same variant: the kernel's cache in memory was cleared or not yet filled"
        source = f" ({_ENVIRONMENT[self.name]})" if self.kind == "environment" else ""
        return f"`{self.name}`{source} is {self.now} (previously {self.before})"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """The cause of a compilation.

    Attributes:
        compared: Number of the most similar earlier compilation of the kernel, from 1; None for the
            first compilation.
        differences: The differences between the variant and that earlier one.
    """

    compared: int | None
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        if self.compared is None:
            return "first compilation"
        return "; ".join(map(str, self.differences))


def causes(compilations: Sequence[LoggedCompilation]) -> list[Cause]:
    """Return the causes of the compilations of one kernel, which must be in chronological order."""
    return [_cause(compilations[:n], entry) for n, entry in enumerate(compilations)]


def _cause(earlier: Sequence[LoggedCompilation], entry: LoggedCompilation) -> Cause:
    if not earlier:
        return Cause(compared=None, differences=())
    candidates = [tuple(differences(other, entry)) for other in earlier]
    nearest = min(range(len(candidates)), key=lambda n: len(candidates[n]))
    return Cause(compared=nearest + 1, differences=candidates[nearest])


def differences(before: LoggedCompilation, now: LoggedCompilation) -> Iterator[Difference]:
    """Yield the differences between two compilations of a kernel; there is at least one."""
    parts = [
        *_parameters(before.source, now.source),
        *_options(before.source.options, now.source.options),
    ]
    if before.device != now.device:
        parts.append(
            Difference(kind="device", name="", before=str(before.device), now=str(now.device))
        )
    if before.source.function is not now.source.function:
        parts += _redefinition(before.source.function, now.source.function)
    yield from parts or [_same_variant(before, now)]


# ---- parameters


@dataclass(frozen=True, kw_only=True)
class _Leaf:
    """A parameter, or an element of a tuple that is passed for it.

    Attributes:
        type: Triton's type; `constexpr` for a constant.
        constant: Value of the constant; `_MISSING` if this is not a constant.
        hints: Properties of the value, such as divisibility by 16.
        declared: True if the parameter is annotated as `tl.constexpr`.
    """

    name: str
    type: str
    constant: Any
    hints: tuple[tuple[str, int], ...]
    declared: bool

    @property
    def family(self) -> str:
        if self.constant is None:
            return "None"
        if self.constant is not _MISSING:
            is_one = type(self.constant) is int and not self.declared
            return "integer" if is_one else "constexpr"
        if self.type.startswith("*"):
            return "pointer"
        if self.type.startswith(("tensordesc", "nvTmaDesc")):
            return "descriptor"
        return "integer" if self.type[:1] in "iu" and self.type[1:].isdigit() else "scalar"

    @property
    def is_aligned(self) -> bool:
        return any(name == "tt.divisibility" for name, _ in self.hints)

    def described(self, kind: Kind) -> str:
        """Describe the property of the value that matters for this kind of difference."""
        if self.constant is None:
            return "None"
        if self.constant is not _MISSING:
            text = _value(self.constant)
            return text if kind != "constexpr" or len(text) <= _LONGEST_VALUE else f"{text[:37]}..."
        if kind == "alignment":
            return "aligned to 16 bytes" if self.is_aligned else "not aligned to 16 bytes"
        if kind == "integer value":
            return "a multiple of 16" if self.is_aligned else "neither 1 nor a multiple of 16"
        if kind == "pointer range":
            ranges = [str(n) for name, n in self.hints if name == "tt.pointer_range"]
            return f"smaller than 2 GiB ({ranges[0]}-bit offsets)" if ranges else "at least 2 GiB"
        return self.type


def _value(value: Any) -> str:
    name = getattr(getattr(value, "fn", None), "__name__", None)
    return repr(value) if name is None else f"`{name}`"


def _leaves(source: KernelSource) -> dict[str, list[_Leaf]]:
    constexprs = {p.name for p in getattr(source.function, "params", ()) if p.is_constexpr}
    return {
        name: list(_flat(source, name, (index,), kind, name in constexprs))
        for index, (name, kind) in enumerate(source.signature.items())
    }


def _flat(
    source: KernelSource, name: str, path: tuple[int, ...], kind: Any, declared: bool
) -> Iterator[_Leaf]:
    if isinstance(kind, (tuple, list)):
        for index, inner in enumerate(kind):
            yield from _flat(source, f"{name}[{index}]", (*path, index), inner, declared)
        return
    hints = tuple((str(hint), int(value)) for hint, value in source.hints.get(path, ()))
    constant = source.constants.get(path, _MISSING)
    yield _Leaf(name=name, type=str(kind), constant=constant, hints=hints, declared=declared)


def _parameters(before: KernelSource, now: KernelSource) -> Iterator[Difference]:
    earlier, later = _leaves(before), _leaves(now)
    for name in later:
        old, new = earlier.get(name, []), later[name]
        if len(old) != len(new):
            yield Difference(
                kind="type",
                name=name,
                before=_signature_text(before.signature.get(name)),
                now=_signature_text(now.signature[name]),
            )
            continue
        for one, other in zip(old, new, strict=True):
            for kind in _kinds(one, other):
                text_before, text_now = one.described(kind), other.described(kind)
                yield Difference(kind=kind, name=other.name, before=text_before, now=text_now)


def _signature_text(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"a tuple of {len(kind or ())}"


def _kinds(before: _Leaf, now: _Leaf) -> list[Kind]:
    """Return the classes of the differences between two values of a parameter."""
    families = {before.family, now.family}
    if len(families) > 1:
        return ["None" if "None" in families else "type"]
    if before.family == "integer":
        return _integer_kinds(before, now)
    if before.family == "constexpr":
        return [] if _same_constant(before.constant, now.constant) else ["constexpr"]
    kinds: list[Kind] = []
    if before.type != now.type:
        kinds.append("descriptor" if before.family == "descriptor" else "dtype")
    if before.is_aligned != now.is_aligned:
        kinds.append("alignment")
    elif before.hints != now.hints:
        kinds.append("pointer range")
    return kinds


def _integer_kinds(before: _Leaf, now: _Leaf) -> list[Kind]:
    ones = [leaf.constant is not _MISSING for leaf in (before, now)]
    if any(ones):
        return [] if all(ones) else ["integer value"]
    kinds: list[Kind] = ["integer width"] if before.type != now.type else []
    if before.is_aligned != now.is_aligned:
        kinds.append("integer value")
    return kinds


def _same_constant(before: Any, now: Any) -> bool:
    if before is now:
        return True
    try:
        return type(before) is type(now) and repr(before) == repr(now) and bool(before == now)
    except Exception:  # noqa: BLE001 - a class of the user may define `==` in any way
        return False


# ---- options, decoration, keys


def _options(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    for name in {**before, **now}:
        old, new = before.get(name, "the default"), now.get(name, "the default")
        if old != new:
            kind: Kind = "environment" if name in _ENVIRONMENT else "option"
            yield Difference(kind=kind, name=name, before=str(old), now=str(new))


def _redefinition(before: Any, now: Any) -> list[Difference]:
    """Describe why a kernel defined at the same line is a different object than before."""
    if before.src != now.src:
        return [
            Difference(
                kind="redefinition", name="its source text", before="another one", now="changed"
            )
        ]
    old, new = _captured(before), _captured(now)
    changed = [
        Difference(
            kind="redefinition",
            name=f"the captured variable `{name}`",
            before=_value(old.get(name)),
            now=_value(value),
        )
        for name, value in new.items()
        if not _same_constant(old.get(name), value)
    ]
    return changed or [Difference(kind="redefinition", name="", before="", now="")]


def _captured(function: Any) -> dict[str, Any]:
    return dict(inspect.getclosurevars(function.fn).nonlocals)


def _same_variant(before: LoggedCompilation, now: LoggedCompilation) -> Difference:
    old, new = _keywords(before.key), _keywords(now.key)
    changed = [n for n in {**old, **new} if old.get(n, _MISSING) != new.get(n, _MISSING)]
    if not changed:
        return Difference(kind="cleared", name="", before="", now="")
    texts = [
        ", ".join(f"`{name}={options[name]!r}`" for name in changed if name in options)
        or f"no {' or '.join(f'`{name}=`' for name in changed)}"
        for options in (old, new)
    ]
    return Difference(kind="keywords", name=", ".join(changed), before=texts[0], now=texts[1])


def launch_keywords(entry: LoggedCompilation) -> dict[str, Any]:
    """Return the options that the launch sets, such as `num_warps=8`, without those Triton adds.

    If Triton's key cannot be parsed, all options of the variant are returned.
    """
    keywords = _keywords(entry.key)
    if not keywords:
        return dict(entry.source.options)
    return {n: v for n, v in keywords.items() if n not in _ENVIRONMENT or v not in (False, "")}


def _keywords(key: str) -> dict[str, Any]:
    """Return the keywords of a launch from the end of Triton's key; empty if they are unreadable.

    The key consists of the specialisation, printed as a list, and the options, printed as a
    dictionary.
    """
    start = key.rfind("]{")
    try:
        value = ast.literal_eval(key[start + 1 :])
    except (ValueError, SyntaxError):
        return {}
    return value if isinstance(value, dict) else {}
