"""Triton's front end: passes, TTIR, and the kernel that it is compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from ttools.core.errors import UsageError
from ttools.core.ownership import owner_of_function
from ttools.core.patches import Patches
from ttools.core.triton_versions.version import installed_triton

#: A kernel's signature: a Triton type per parameter, `constexpr`, or a tuple of such.
Signature: TypeAlias = "str | tuple[Signature, ...]"


# The nvidia backend rewrites tensor descriptors to pointers below compute capability 9.0 only.
_CAPABILITY_WITHOUT_DESCRIPTORS = 80


@contextmanager
def each_visited_node(act: Callable[[], object]) -> Iterator[None]:
    """Has a function called for each node of a kernel's source that the front end visits.

    Args:
        act: the function; what it raises ends the compilation if it is no `Exception`.
    """
    from triton.compiler.code_generator import CodeGenerator

    def acting(visit: Callable[..., Any]) -> Callable[..., Any]:
        def visit_node(self: Any, node: Any) -> Any:
            act()
            return visit(self, node)

        return visit_node

    with Patches() as patches:
        patches.wrap(CodeGenerator, "visit", acting)
        yield


def run_ttir_passes(module: Any) -> None:
    """Runs the installed nvidia backend's own TTIR passes, descriptors rewritten, on `module`.

    Up to 3.7 its list also rewrites block pointers; 3.8 gave `tl.make_block_ptr` up.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    CUDABackend.make_ttir(module, {}, None, _CAPABILITY_WITHOUT_DESCRIPTORS)


def run_required_passes(module: Any) -> None:
    """What `run_ttir_passes` does of necessity: it rewrites descriptors and block pointers.

    Nothing is simplified, nor inlined, which simplifies, so that values are yielded twice and
    carried for nothing: forms that other versions of Triton, whose front ends and passes differ,
    may leave.
    """
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # up to 3.7
        passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    manager.run(module, "required_passes")


def print_operands(module: Any, name: str, prefix: Callable[[str], str | None]) -> None:
    """Puts a `tt.print` of its operands behind each operation of a name that has one result.

    A module is left as it is by versions of Triton that let nobody insert there.

    Args:
        module: as the front end writes it.
        prefix: of the print, from the text of the result's type; None for none.
    """
    from triton._C.libtriton import ir

    if not hasattr(ir.builder, "set_insertion_point_after"):
        return
    found: list[Any] = []
    module.walk(lambda op: found.append(op) if op.get_name() == name else None)
    builder = ir.builder(module.context)
    for op in found:
        result = op.get_result(0)
        text = prefix(str(result.get_type()))
        if text is not None:
            operands = [op.get_operand(n) for n in range(op.get_num_operands())]
            builder.set_insertion_point_after(op)
            builder.set_loc(result.get_loc())
            builder.create_print(text, False, operands, [1] * len(operands))


def libdevice_module() -> Any:
    """The module whose functions `triton.language.extra.libdevice` stands for."""
    from triton.language.extra.cuda import libdevice

    return libdevice


def fp_fusion(requested: bool | None) -> bool:
    """Whether a*b+c may contract, from the launch option and Triton's environment variables."""
    from triton import knobs

    if getattr(knobs.language, "force_disable_fp_fusion", False):  # from 3.9
        return False
    return bool(knobs.language.default_fp_fusion if requested is None else requested)


def load_ttir(path: Path) -> Any:
    """Parses and verifies a `.ttir` file with Triton's own parser.

    Returns:
        The module; it keeps its context alive.

    Args:
        path: of a file that `read_foreign_ttir` has read, for this parser trusts its input.

    Raises:
        UsageError: the file is not TTIR. MLIR prints where and why on stderr itself.
    """
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    try:
        module = ir.parse_mlir_module(str(path), context)
    except RuntimeError as error:
        raise UsageError(f"{path}: not valid TTIR for Triton {installed_triton()}") from error
    module.context = context
    return module


@dataclass(frozen=True)
class CompiledSource:
    """The kernel that Triton is compiling: its `JITFunction` and everything it may call."""

    functions: tuple[Any, ...]

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Those that are compiled; the others compute constants while Triton compiles."""
        return tuple(function for function in self.functions if hasattr(function, "params"))

    @property
    def files(self) -> tuple[str, ...]:
        """Where these functions were written, without repetition."""
        return tuple(dict.fromkeys(str(Path(source_file(f)).absolute()) for f in self.functions))


def source_file(function: Any) -> str:
    """The file of a `JITFunction`'s Python source."""
    return str(function.fn.__code__.co_filename)


def kernel_being_compiled(frame: FrameType | None) -> CompiledSource | None:
    """The kernel for which Triton calls a backend, found in the caller's variables.

    Triton does not say to a backend which kernel it compiles, and leaves the path of its source out
    of its cache's key.

    Args:
        frame: of the backend's caller: `triton.compiler.compile` has the source in `src`,
            `JITFunction._pack_args` has the function in `self`.
    """
    if frame is None:
        return None
    source = frame.f_locals.get("src")
    kernel = getattr(source, "fn", None) or frame.f_locals.get("self")
    if not _is_jit_callable(kernel):
        return None
    return compiled_source(kernel, getattr(source, "constants", {}))


def compiled_source(kernel: Any, constants: Mapping[Any, Any]) -> CompiledSource:
    """A kernel and what it may call, the functions included that are passed as constants.

    Args:
        kernel: a `JITFunction`.
        constants: the values it is compiled for.
    """
    passed = filter(_is_jit_callable, constants.values())
    return CompiledSource(tuple(_reachable([kernel, *passed])))


def launched_function(frame: FrameType | None) -> Any:
    """The `JITFunction` that Triton is about to compile for a launch; None if it is not for one.

    Args:
        frame: as of `kernel_being_compiled`.
    """
    if frame is None or frame.f_code.co_name != "_pack_args":
        return None
    return frame.f_locals.get("self")


def _is_jit_callable(value: Any) -> bool:
    # On the class: evaluating a kernel's key already refuses some of what it may hold.
    return hasattr(type(value), "cache_key") and hasattr(getattr(value, "fn", None), "__code__")


def _reachable(roots: Iterable[Any]) -> Iterator[Any]:
    """`roots` and the jit functions their code names, without Triton's own."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        function = todo.pop(0)
        if id(function) in seen or owner_of_function(function) == "triton":
            continue
        seen.add(id(function))
        yield function
        scope = function.fn.__globals__
        named = (scope.get(name) for name in function.fn.__code__.co_names)
        todo += filter(_is_jit_callable, named)
