"""Kernels to compile: a function with a signature, a captured launch, or a TTIR file."""

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
#: Suffixes of types in signatures: `16` for values divisible by 16, `1` for the value 1.
_DIVISIBLE, _ONE = "16", "1"


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelSource:
    """A kernel with the specialisation of one launch.

    Sources are equal if a compiler produces the same code for them. The line of the launch is
    ignored. Constants that are equal in Python but lead to different code, such as `1`, `1.0` and
    `True`, are distinguished.

    Attributes:
        function: The `JITFunction`; None for a file.
        signature: Triton type of each parameter, by name; `constexpr` for a constant.
        constants: Values of constants by index path: `(2,)` is the third parameter, `(2, 0)` the
            first element of a tuple that is passed for it.
        hints: Triton's attributes of parameters, such as divisibility by 16, by index path.
        options: Launch options, such as num_warps and num_stages.
        path: Path of the TTIR file; None for a function.
        described: Descriptions of the parameters by name, for a TTIR file only.
        launched: `file:line` of the launch.
        compiled: Triton's `CompiledKernel` from a launch; it can be reused for the target of that
            launch. None if there is none.
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
        fields = (self.signature, self.constants, self.hints, self.options, self.described)
        return (self.name, self.function, self.path, *map(_comparable, fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelSource) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def specialises_like(self, other: KernelSource) -> bool:
        """Return whether function, specialisation and the options that both have are equal."""
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
        """Return the argument for `triton.compile`."""
        if self.path is not None:
            return str(self.path)
        return kernel_ast_source(self.function, self.signature, self.constants, self.hints)

    def parameters(self) -> dict[str, str]:
        """Describe each parameter's specialisation: `*fp32, divisible by 16`, `constant 1024`."""
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
        # The elements of a tuple have longer paths, such as (2, 0).
        constants = [
            f"{_element(path)} is {value!r}"
            for path, value in self.constants.items()
            if path[0] == index
        ]
        hints = [
            f"{_element(path)} divisible by {n}".lstrip()
            for path, values in self.hints.items()
            if path[0] == index
            for name, n in values
            if n > 1
        ]
        return ", ".join([text, *constants, *hints])


def _element(path: tuple[int, ...]) -> str:
    """Format the subscripts of an element of a tuple, such as `[0]`; empty for a parameter."""
    return "".join(f"[{index}]" for index in path[1:])


def _comparable(value: Any) -> object:
    """Return a hashable key that is equal for values that Triton compiles to the same code."""
    if isinstance(value, Mapping):
        return tuple((name, _comparable(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_comparable, value))
    if isinstance(value, float):
        return float, value.hex()  # distinguishes 0.0 and -0.0; NaN equals itself
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)  # the source keeps the object alive
    return type(value), value


def kernel_within(value: Any) -> Any:
    """Return the `JITFunction` wrapped by decorators; None if there is none."""
    from triton.runtime.jit import JITFunction

    for _ in range(_MOST_DECORATORS):
        if isinstance(value, JITFunction):
            return value
        value = vars(value).get("fn") if hasattr(value, "__dict__") else None
    return None


def source_of_file(path: Path, options: Mapping[str, Any]) -> KernelSource:
    """Return the source for a `.ttir` file.

    Raises:
        UsageError: The file does not exist or is not TTIR.
    """
    if not path.is_file():
        raise UsageError(f"there is no file `{path}`")
    read_foreign_ttir(path)
    return KernelSource(name=path.stem, path=path, options=options)


def source_of_signature(function: Any, signature: str, options: Mapping[str, Any]) -> KernelSource:
    """Return the source for a kernel with a signature, written as for `triton.tools.compile`.

    Args:
        function: The kernel as a `JITFunction`.
        signature: One entry per parameter, separated by commas. An entry is either a type such as
            `*fp32` or `i32`, with `:16` for values divisible by 16 or `:1` for the value 1, or the
            value of a constant.

    Raises:
        UsageError: An entry is invalid, or the number of entries is wrong.
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
            raise UsageError(f"`{entry}` for `{name}`: the suffix of a type must be :16 or :1")
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
    """Split at commas outside brackets and quotes."""
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
            f"`{text}` for `{name}` is neither a type such as *fp32 or i32, nor a constant such as "
            "1024 or True"
        ) from None
