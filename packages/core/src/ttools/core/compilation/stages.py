"""Compilation of a kernel for a target, with the text of every stage."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ttools.core.compilation.compile_errors import explanation
from ttools.core.compilation.disassembly import code_sections, disassemble
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.gpus.targets import Target
from ttools.core.lazy_values import computed_once
from ttools.core.triton_versions import AllocatedMemory, allocate_memory, assembler_output

#: Stages by backend, in the order of compilation.
STAGES: dict[str, tuple[str, ...]] = {
    "cuda": ("ast", "ttir", "ttgir", "llir", "ptx", "sass"),
    "hip": ("ast", "ttir", "ttgir", "llir", "amdgcn"),
}
_BINARIES = {"cuda": "cubin", "hip": "hsaco"}


class CompilationError(TtoolsError):
    """Triton's compiler rejected a kernel; the message is the compiler's."""


class Assembled(NamedTuple):
    """The result of NVIDIA's assembler.

    Attributes:
        binary: Content of the cubin file.
        output: Messages of ptxas, which include the spilled bytes.
    """

    binary: bytes
    output: str


@dataclass(frozen=True)
class Compilation:
    """A kernel compiled for a target.

    Attributes:
        texts: Texts of Triton's own stages, by name. The PTX has corrected line numbers, see
            `repaired`.
        metadata: Data from Triton's compiler, such as shared and num_warps.
    """

    source: KernelSource
    target: Target
    texts: Mapping[str, str]
    binary: bytes
    metadata: Mapping[str, Any]

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the available stages, in order; a TTIR file has no AST."""
        return tuple(
            name
            for name in STAGES[self.target.backend]
            if name == "sass" or name in self.texts or (name == "ast" and self.source.function)
        )

    def text(self, stage: str) -> str:
        """Return the text of a stage.

        Raises:
            UsageError: This compilation has no such stage.
        """
        if stage not in self.stages:
            raise UsageError(
                f"{self.target.name} has no stage `{stage}`; choose from {', '.join(self.stages)}"
            )
        if stage == "sass":
            return self.sass
        return self.syntax_tree if stage == "ast" else self.texts[stage]

    @computed_once
    def assembled(self) -> Assembled:
        """Return the kernel assembled from PTX with corrected line numbers."""
        return assemble(self.texts["ptx"], self.metadata, self.target)

    @computed_once
    def sass(self) -> str:
        """Return the disassembled NVIDIA machine code with source lines."""
        again = self.assembled.binary
        # Use the binary with corrected lines, unless its code differs from that of the original
        # binary.
        return disassemble(again if same_code(again, self.binary) else self.binary)

    @cached_property
    def syntax_tree(self) -> str:
        """Return the Python syntax tree that Triton compiles, with line numbers of the file."""
        function = self.source.function.fn
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        return _dump(tree.body[0])


def _dump(node: ast.AST, depth: int = 0) -> str:
    """Format one node per line with its line number; leaves are on the line of their parent."""
    pad = "  " * depth
    note = f"  # line {node.lineno}" if isinstance(node, (ast.stmt, ast.expr)) else ""
    simple, nested = [], []
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and next(ast.iter_child_nodes(value), None) is not None:
            nested += [f"{pad}  {name}:", _dump(value, depth + 2)]
        elif isinstance(value, list) and any(isinstance(item, ast.AST) for item in value):
            nested.append(f"{pad}  {name}:")
            nested += [_dump(item, depth + 2) for item in value]
        elif isinstance(value, ast.AST):
            simple.append(f"{name}={_leaf(value)}")
        elif value not in (None, []):
            simple.append(f"{name}={value!r}")
    return "\n".join([f"{pad}{type(node).__name__}({', '.join(simple)}){note}", *nested])


def _leaf(node: ast.AST) -> str:
    fields = [f"{value!r}" for _, value in ast.iter_fields(node) if value is not None]
    return f"{type(node).__name__}({', '.join(fields)})"


def compile_for(source: KernelSource, target: Target) -> Compilation:
    """Compile a kernel for a GPU that need not be present.

    A kernel that a launch has already compiled for the same target is reused, because compiling it
    again would take as long and could miss options of the launch.

    Raises:
        CompilationError: Triton's compiler rejects the kernel.
    """
    import triton

    gpu = target.gpu_target()
    with _compiling(source, target) as (_, options):
        compiled = _compiled_before(source, target)
        if compiled is None:
            compiled = triton.compile(source.compilable(), target=gpu, options=options)
    return _compilation(source, target, compiled)


def launched_compilation(source: KernelSource, target: Target) -> Compilation | None:
    """Return the result of `compile_for` if that requires no compilation, else None."""
    compiled = _compiled_before(source, target)
    return None if compiled is None else _compilation(source, target, compiled)


def _compilation(source: KernelSource, target: Target, compiled: Any) -> Compilation:
    texts = {
        name: text
        for name in STAGES[target.backend]
        if isinstance(text := compiled.asm.get(name), str)
    }
    binary = bytes(compiled.asm[_BINARIES[target.backend]])
    if "ptx" in texts:
        texts["ptx"] = repaired(texts["ptx"])
    return Compilation(source, target, texts, binary, compiled.metadata._asdict())


def assemble(ptx: str, metadata: Mapping[str, Any], target: Target) -> Assembled:
    """Assemble PTX with the options that its kernel was compiled with.

    Args:
        metadata: Data from Triton's compiler, which includes these options.
    """
    from triton.compiler import make_backend

    gpu = target.gpu_target()
    backend = make_backend(gpu)
    option_names = backend.parse_options({}).__dict__
    options = backend.parse_options({name: metadata[name] for name in option_names})
    with assembler_output() as output:
        cubin = bytes(backend.make_cubin(ptx, dict(metadata), options, gpu.arch))
    return Assembled(cubin, "".join(output))


def _compiled_before(source: KernelSource, target: Target) -> Any:
    """Return the kernel compiled by a launch if it is complete and for the target, else None."""
    compiled = source.compiled
    compiled_for = getattr(getattr(compiled, "metadata", None), "target", None)
    if compiled is None or compiled_for != target.gpu_target():
        return None
    required = {*STAGES[target.backend], _BINARIES[target.backend]} - {"ast", "sass"}
    # TRITON_STORE_BINARY_ONLY=1 omits the texts.
    return compiled if all(compiled.asm.get(name) is not None for name in required) else None


def allocate_for(source: KernelSource, target: Target) -> AllocatedMemory:
    """Compile a kernel only up to memory allocation, which is several times faster.

    Raises:
        CompilationError: Triton's compiler rejects the kernel.
    """
    with _compiling(source, target) as (_, options):
        return allocate_memory(source.compilable(), target.gpu_target(), options)


@contextmanager
def _compiling(source: KernelSource, target: Target) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield Triton's backend and the supported options; add context to errors in the block."""
    from triton.compiler import make_backend

    with warnings.catch_warnings():
        # Triton 3.9 warns that version 3.10 will change the default of fp fusion, which is
        # irrelevant here.
        warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
        backend = make_backend(target.gpu_target())
        supported = backend.parse_options({}).__dict__
        options = {name: value for name, value in source.options.items() if name in supported}
        try:
            yield backend, options
        except Exception as error:
            raise CompilationError(
                f"`{source.name}` does not compile for {target.name}: {_reason(error, source)}"
            ) from error


def _reason(error: Exception, source: KernelSource) -> str:
    text = str(error).strip()
    names = enumerate(source.signature)
    constants = {name: source.constants[n,] for n, name in names if (n,) in source.constants}
    remedy = explanation(error, constants, list(source.signature))
    advice = f"\nhelp: {remedy}" if remedy else ""
    return f"{type(error).__name__}: {text}{advice}" if text else type(error).__name__


def read_stages(names: Sequence[str]) -> list[str]:
    """Return the named stages in the order of compilation.

    Raises:
        UsageError: There is no stage with one of these names.
    """
    all_stages = list(dict.fromkeys(name for stages in STAGES.values() for name in stages))
    for name in names:
        if name not in all_stages:
            raise UsageError(f"there is no stage `{name}`; choose from {', '.join(all_stages)}")
    return [name for name in all_stages if name in names]


_BEGIN, _END = re.compile(r"\s*// begin inline asm"), re.compile(r"\s*// end inline asm")
_LOC = re.compile(r"\s*\.loc\s")


def repaired(ptx: str) -> str:
    """Return PTX with correct line numbers for inline assembly; only `.loc` lines differ.

    Triton writes accesses to global memory as inline assembly of several lines. For each of these
    lines, LLVM writes a `.loc` directive; each directive has a source line that is one higher than
    the previous one. Only the first `.loc` is correct.
    """
    return "".join(_kept(ptx))


def _kept(ptx: str) -> Iterator[str]:
    in_assembly, has_location = False, False
    for line in ptx.splitlines(keepends=True):
        if _BEGIN.match(line):
            in_assembly, has_location = True, False
        elif _END.match(line):
            in_assembly = False
        elif in_assembly and _LOC.match(line):
            if has_location:
                continue
            has_location = True
        yield line


def same_code(one: bytes, other: bytes) -> bool:
    """Return whether two cubins have the same instructions, ignoring line tables."""
    return code_sections(one) == code_sections(other)
