"""Compiles a kernel for a target and keeps the text of every stage.

Owns the names of stages and the call of Triton's compiler. Must not know what is read off a stage.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ttools.core.compilation.disassembly import code_sections, disassemble
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.gpus.targets import Target
from ttools.core.once import computed_once
from ttools.core.triton_versions import AllocatedMemory, allocate_memory, assembler_output

#: Stages by backend, in the order of compilation; the last is the disassembled binary.
STAGES: dict[str, tuple[str, ...]] = {
    "cuda": ("ast", "ttir", "ttgir", "llir", "ptx", "sass"),
    "hip": ("ast", "ttir", "ttgir", "llir", "amdgcn"),
}
_BINARIES = {"cuda": "cubin", "hip": "hsaco"}


class CompilationError(TtoolsError):
    """Triton's compiler refused a kernel; the message is the compiler's."""


class Assembled(NamedTuple):
    """What NVIDIA's assembler makes of PTX.

    Attributes:
        binary: The cubin.
        output: What ptxas printed, with the bytes that it spills.
    """

    binary: bytes
    output: str


@dataclass(frozen=True)
class Compilation:
    """A kernel compiled for a target.

    Attributes:
        texts: of Triton's own stages, by name.
        assemble: Assembles PTX whose lines are repaired, see `repaired`.
        metadata: of Triton's compiler: shared, num_warps, …
    """

    source: KernelSource
    target: Target
    texts: Mapping[str, str]
    binary: bytes
    assemble: Callable[[], Assembled]
    metadata: Mapping[str, Any]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages there are, in order; a file has no AST."""
        return tuple(
            name
            for name in STAGES[self.target.backend]
            if name == "sass" or name in self.texts or (name == "ast" and self.source.function)
        )

    def text(self, stage: str) -> str:
        """The text of a stage.

        Raises:
            UsageError: this compilation has no such stage.
        """
        if stage not in self.stages:
            raise UsageError(
                f"{self.target.name} has no stage `{stage}`; there are {', '.join(self.stages)}"
            )
        if stage == "sass":
            return self.sass
        return self.syntax_tree if stage == "ast" else self.texts[stage]

    @computed_once
    def assembled(self) -> Assembled:
        """The same kernel, assembled from PTX whose lines are repaired."""
        return self.assemble()

    @computed_once
    def sass(self) -> str:
        """The machine code of NVIDIA's, disassembled, with source lines."""
        again = self.assembled.binary
        # Lines are those of the repaired PTX, unless the assembler made other code of it.
        return disassemble(again if same_code(again, self.binary) else self.binary)

    @cached_property
    def syntax_tree(self) -> str:
        """Python's syntax tree, from which Triton makes the first IR, with the file's lines."""
        function = self.source.function.fn
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        return _dump(tree.body[0])


def _dump(node: ast.AST, depth: int = 0) -> str:
    """One node per line with its line number; leaves beside their parents."""
    pad = "  " * depth
    note = f"  # line {node.lineno}" if isinstance(node, (ast.stmt, ast.expr)) else ""
    simple, nested = [], []
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and next(ast.iter_child_nodes(value), None) is not None:
            nested += [f"{pad}  {name}:", _dump(value, depth + 2)]
        elif isinstance(value, list) and any(isinstance(each, ast.AST) for each in value):
            nested.append(f"{pad}  {name}:")
            nested += [_dump(each, depth + 2) for each in value]
        elif isinstance(value, ast.AST):
            simple.append(f"{name}={_leaf(value)}")
        elif value not in (None, []):
            simple.append(f"{name}={value!r}")
    return "\n".join([f"{pad}{type(node).__name__}({', '.join(simple)}){note}", *nested])


def _leaf(node: ast.AST) -> str:
    fields = [f"{value!r}" for _, value in ast.iter_fields(node) if value is not None]
    return f"{type(node).__name__}({', '.join(fields)})"


def compile_for(source: KernelSource, target: Target) -> Compilation:
    """Compile a kernel for a GPU that need not be there.

    What a launch on a GPU of the target has used is taken as it is: compiling it again would take
    as long, and would not know all options of the launch.

    Raises:
        CompilationError: Triton's compiler refuses the kernel.
    """
    import triton

    gpu = target.gpu_target()
    with _compiling(source, target) as (backend, options):
        compiled = _compiled_before(source, target)
        if compiled is None:
            compiled = triton.compile(source.compilable(), target=gpu, options=options)
    known = backend.parse_options({}).__dict__
    texts = {
        name: text
        for name in STAGES[target.backend]
        if isinstance(text := compiled.asm.get(name), str)
    }
    binary = bytes(compiled.asm[_BINARIES[target.backend]])
    metadata = compiled.metadata._asdict()
    if "ptx" in texts:
        texts["ptx"] = repaired(texts["ptx"])

    def assemble() -> Assembled:
        parsed = backend.parse_options({name: metadata[name] for name in known})
        with assembler_output() as found:
            made = bytes(backend.make_cubin(texts["ptx"], dict(metadata), parsed, gpu.arch))
        return Assembled(made, "".join(found))

    return Compilation(source, target, texts, binary, assemble, metadata)


def _compiled_before(source: KernelSource, target: Target) -> Any:
    """Return the kernel that a launch has used, if it is of the target and whole; else None."""
    compiled = source.compiled
    made_for = getattr(getattr(compiled, "metadata", None), "target", None)
    if compiled is None or made_for != target.gpu_target():
        return None
    wanted = {*STAGES[target.backend], _BINARIES[target.backend]} - {"ast", "sass"}
    # TRITON_STORE_BINARY_ONLY=1 leaves the texts out.
    return compiled if all(compiled.asm.get(name) is not None for name in wanted) else None


def allocate_for(source: KernelSource, target: Target) -> AllocatedMemory:
    """Compiles a kernel for a GPU until its memory is allocated: the same, several times faster.

    Raises:
        CompilationError: Triton's compiler refuses the kernel.
    """
    with _compiling(source, target) as (_, options):
        return allocate_memory(source.compilable(), target.gpu_target(), options)


@contextmanager
def _compiling(source: KernelSource, target: Target) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The backend, and the options that it knows; says what was compiled if that fails."""
    from triton.compiler import make_backend

    with warnings.catch_warnings():
        # 3.9 warns of a default that 3.10 will change; it is not what anybody inspects.
        warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
        backend = make_backend(target.gpu_target())
        known = backend.parse_options({}).__dict__
        options = {name: value for name, value in source.options.items() if name in known}
        try:
            yield backend, options
        except Exception as error:
            raise CompilationError(
                f"`{source.name}` does not compile for {target.name}: {_reason(error)}"
            ) from error


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def read_stages(names: Sequence[str]) -> list[str]:
    """Stages by name, in the order of compilation.

    Raises:
        UsageError: naming the unknown one.
    """
    known = list(dict.fromkeys(name for stages in STAGES.values() for name in stages))
    for name in names:
        if name not in known:
            raise UsageError(f"there is no stage `{name}`; choose from {', '.join(known)}")
    return [name for name in known if name in names]


_BEGIN, _END = re.compile(r"\s*// begin inline asm"), re.compile(r"\s*// end inline asm")
_LOC = re.compile(r"\s*\.loc\s")


def repaired(ptx: str) -> str:
    """PTX whose inline assembly is of the lines it is from; it differs in its `.loc` lines only.

    Triton's accesses to global memory are inline assembly of several lines, for each of which LLVM
    writes a `.loc` of its own and counts the source line up. Only the first is right.
    """
    return "".join(_kept(ptx))


def _kept(ptx: str) -> Iterator[str]:
    within, seen = False, False
    for line in ptx.splitlines(keepends=True):
        if _BEGIN.match(line):
            within, seen = True, False
        elif _END.match(line):
            within = False
        elif within and _LOC.match(line):
            if seen:
                continue
            seen = True
        yield line


def same_code(one: bytes, other: bytes) -> bool:
    """Return whether two cubins hold the same instructions, whatever lines they come from."""
    return code_sections(one) == code_sections(other)
