"""Kernels to compile: a function with a signature, a captured launch, or a file of TTIR."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.triton_versions import kernel_ast_source, read_foreign_ttir

_TYPE = re.compile(
    r"\*?(?:i1|i8|i16|i32|i64|u8|u16|u32|u64|fp16|bf16|fp32|fp64|fp8e4nv|fp8e5|fp8e4b8|fp8e5b16"
    r"|fp8e4b15|f16|f32|f64|B)"
)
_TORCH_NAMES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "B": "i1"}
_MOST_DECORATORS = 8
#: `:16` promises divisibility, `:1` that the value is 1.
_DIVISIBLE, _ONE = "16", "1"


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelSource:
    """A kernel, specialised as one launch would have it.

    Sources are equal if a compiler makes the same of them: where they were launched is ignored,
    and constants that compare equal in Python, as `1`, `1.0` and `True`, are different ones.

    Attributes:
        function: the `JITFunction`; None for a file.
        signature: Triton's type of each parameter, `constexpr` where it is a constant.
        constants: values of constants by path of parameter indices.
        hints: Triton's attributes by path of parameter indices.
        options: of the launch: num_warps, num_stages, …
        path: of the TTIR file; None for a function.
        described: what is known of the parameters of such a file, as text.
        launched: where it was launched from, `file:line`.
        compiled: Triton's `CompiledKernel` that a launch used, which need not be compiled again for
            its own target; None where there is none.
    """

    name: str
    function: Any = None
    signature: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[tuple[int, ...], Any] = field(default_factory=dict)
    hints: Mapping[tuple[int, ...], Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    described: Mapping[str, str] = field(default_factory=dict)
    launched: str | None = None
    compiled: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        own = (self.signature, self.constants, self.hints, self.options, self.described)
        return (self.name, self.function, self.path, *map(_comparable, own))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelSource) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def specialises_like(self, other: KernelSource) -> bool:
        """Return whether both specialise a function alike, by the options that both name."""
        return (
            self.function is other.function
            and self.parameters() == other.parameters()
            and all(
                self.options[name] == value
                for name, value in other.options.items()
                if name in self.options
            )
        )

    def compilable(self) -> Any:
        """What `triton.compile` takes."""
        if self.path is not None:
            return str(self.path)
        return kernel_ast_source(self.function, self.signature, self.constants, self.hints)

    def parameters(self) -> dict[str, str]:
        """Each parameter as it is specialised: `*fp32, divisible by 16`, `constant 1024`."""
        if self.path is not None:
            return dict(self.described)
        return {
            name: self._parameter(index, kind)
            for index, (name, kind) in enumerate(self.signature.items())
        }

    def _parameter(self, index: int, kind: Any) -> str:
        if (index,) in self.constants:
            return f"constant {self.constants[(index,)]!r}"
        text = kind if isinstance(kind, str) else str(tuple(kind))
        hints = [f"divisible by {n}" for name, n in self.hints.get((index,), ()) if n > 1]
        return ", ".join([text, *hints])


def _comparable(value: Any) -> object:
    """Return a hashable object that equals that of another value if Triton compiles both alike."""
    if isinstance(value, Mapping):
        return tuple((name, _comparable(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_comparable, value))
    if isinstance(value, float):
        return float, value.hex()  # distinguishes zeros, and equals itself also if it is no number
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)  # the source holds the value
    return type(value), value


def kernel_within(value: Any) -> Any:
    """The `JITFunction` that a value is, decorators taken off; None for everything else."""
    from triton.runtime.jit import JITFunction

    for _ in range(_MOST_DECORATORS):
        if isinstance(value, JITFunction):
            return value
        value = vars(value).get("fn") if hasattr(value, "__dict__") else None
    return None


def source_of_file(path: Path, options: Mapping[str, Any]) -> KernelSource:
    """A `.ttir` file.

    Raises:
        UsageError: there is no such file, or it is no TTIR.
    """
    if not path.is_file():
        raise UsageError(f"there is no file `{path}`")
    read_foreign_ttir(path)
    return KernelSource(name=path.stem, path=path, options=options)


def source_of_signature(function: Any, signature: str, options: Mapping[str, Any]) -> KernelSource:
    """A kernel with a signature as `triton.tools.compile` takes it.

    Args:
        function: a `JITFunction`.
        signature: one entry per parameter, separated by commas: a type as `*fp32` or `i32`, with
            `:16` for values divisible by 16 or `:1` for the value 1; else the value of a constant.

    Raises:
        UsageError: an entry cannot be read, or there are too few or too many.
    """
    names = list(function.arg_names)
    entries = [part.strip() for part in _split(signature)]
    if len(entries) != len(names):
        raise UsageError(
            f"the signature has {len(entries)} entries, but `{function.__name__}` has "
            f"{len(names)} parameters: {', '.join(names)}"
        )
    types: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    hints: dict[tuple[int, ...], Any] = {}
    constexprs = {p.num for p in function.params if p.is_constexpr}
    for index, (name, entry) in enumerate(zip(names, entries, strict=True)):
        kind, _, hint = entry.partition(":")
        if not _TYPE.fullmatch(kind) or index in constexprs:
            constants[(index,)] = _constant(name, entry)
            types[name] = "constexpr"
            continue
        if hint not in ("", _DIVISIBLE, _ONE):
            raise UsageError(f"`{entry}` for `{name}`: only :16 and :1 are known")
        types[name] = _spelled(kind)
        if hint == _ONE:
            types[name] = "constexpr"
            constants[(index,)] = 1
        elif hint == _DIVISIBLE:
            hints[(index,)] = [["tt.divisibility", 16]]
    return KernelSource(
        name=function.__name__,
        function=function,
        signature=types,
        constants=constants,
        hints=hints,
        options=options,
    )


def _split(signature: str) -> Sequence[str]:
    """At the commas that stand outside brackets and quotes."""
    return re.findall(r"(?:[^,(\[\"']|\([^)]*\)|\[[^\]]*\]|\"[^\"]*\"|'[^']*')+", signature)


def _spelled(kind: str) -> str:
    star, name = ("*", kind[1:]) if kind.startswith("*") else ("", kind)
    return star + _TORCH_NAMES.get(name, name)


def _constant(name: str, text: str) -> Any:
    import triton.language as tl

    if isinstance(dtype := getattr(tl, text.removeprefix("tl."), None), tl.dtype):
        return dtype
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise UsageError(
            f"`{text}` for `{name}` is no type (like *fp32, i32) and no constant (like 1024, True)"
        ) from None
