"""Access to Triton's front end: its passes, TTIR, and the kernel that it is compiling."""

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

#: An entry of a kernel's signature: a Triton type, `constexpr`, or a tuple of such entries.
Signature: TypeAlias = "str | tuple[Signature, ...]"


# The NVIDIA backend rewrites tensor descriptors to pointers only if the compute capability is below
# 9.0.
_CAPABILITY_WITHOUT_DESCRIPTORS = 80


@contextmanager
def each_visited_node(act: Callable[[], object]) -> Iterator[None]:
    """Call a function for each node of a kernel's source that the front end visits.

    Args:
        act: The function. The compilation ends if it raises an exception that is not an
            `Exception`.
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
    """Run the installed NVIDIA backend's TTIR passes on `module`, including descriptor rewriting.

    Up to Triton 3.7, the backend's list of passes also rewrites block pointers; Triton 3.8 removed
    `tl.make_block_ptr`.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    CUDABackend.make_ttir(module, {}, None, _CAPABILITY_WITHOUT_DESCRIPTORS)


def run_required_passes(module: Any) -> None:
    """Run only the necessary part of `run_ttir_passes`: rewrite descriptors and block pointers.

    Because nothing is simplified or inlined, redundant values remain, for example values that a
    loop yields twice. The fuzzer tests such modules, because the front ends and passes of other
    Triton versions may produce them, too.
    """
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # up to 3.7
        passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    manager.run(module, "required_passes")


def print_operands(module: Any, name: str, prefix: Callable[[str], str | None]) -> None:
    """Insert a `tt.print` of the operands after each operation with a given name and one result.

    In versions of Triton whose builder cannot insert operations there, the module stays unchanged.

    Args:
        module: Module as the front end writes it.
        prefix: Maps the text of the result's type to the print's prefix, or to None for no print.
    """
    from triton._C.libtriton import ir

    if not hasattr(ir.builder, "set_insertion_point_after"):
        return
    operations: list[Any] = []
    module.walk(lambda op: operations.append(op) if op.get_name() == name else None)
    builder = ir.builder(module.context)
    for op in operations:
        result = op.get_result(0)
        text = prefix(str(result.get_type()))
        if text is not None:
            operands = [op.get_operand(n) for n in range(op.get_num_operands())]
            builder.set_insertion_point_after(op)
            builder.set_loc(result.get_loc())
            builder.create_print(text, False, operands, [1] * len(operands))


def libdevice_module() -> Any:
    """Return the module behind `triton.language.extra.libdevice`."""
    from triton.language.extra.cuda import libdevice

    return libdevice


def fp_fusion(requested: bool | None) -> bool:
    """Return whether the launch option and Triton's variables allow `a*b+c` to be fused."""
    from triton import knobs

    if getattr(knobs.language, "force_disable_fp_fusion", False):  # from 3.9
        return False
    return bool(knobs.language.default_fp_fusion if requested is None else requested)


def load_ttir(path: Path) -> Any:
    """Parse and verify a `.ttir` file with Triton's own parser.

    Args:
        path: A file that `read_foreign_ttir` has checked, because this parser trusts its input.

    Returns:
        The module; it keeps its context alive.

    Raises:
        UsageError: The file is not TTIR. MLIR itself prints the place and the reason to stderr.
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
        """Return the compiled functions; all others compute constants during compilation."""
        return tuple(function for function in self.functions if hasattr(function, "params"))

    @property
    def files(self) -> tuple[str, ...]:
        """Return the source files of these functions, without repetition."""
        return tuple(dict.fromkeys(str(Path(source_file(f)).absolute()) for f in self.functions))


def source_file(function: Any) -> str:
    """Return the file of a `JITFunction`'s Python source."""
    return str(function.fn.__code__.co_filename)


def kernel_being_compiled(frame: FrameType | None) -> CompiledSource | None:
    """Return the kernel for which Triton is calling a backend, from variables of the caller.

    Triton does not pass the kernel to a backend, and its cache key does not contain the path of the
    kernel's source.

    Args:
        frame: Frame of the backend's caller: `triton.compiler.compile` has the source in `src`,
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
    """Return a kernel with the functions it may call, including those passed as constants.

    Args:
        kernel: The kernel as a `JITFunction`.
        constants: Values of constant parameters.
    """
    passed = filter(_is_jit_callable, constants.values())
    return CompiledSource(tuple(_reachable([kernel, *passed])))


def launched_function(frame: FrameType | None) -> Any:
    """Return the `JITFunction` that Triton is about to compile for a launch, or None.

    Args:
        frame: The frame described at `kernel_being_compiled`.
    """
    if frame is None or frame.f_code.co_name != "_pack_args":
        return None
    return frame.f_locals.get("self")


def _is_jit_callable(value: Any) -> bool:
    # The attribute is looked up on the class, because evaluating `cache_key` raises an exception
    # for some kernels.
    return hasattr(type(value), "cache_key") and hasattr(getattr(value, "fn", None), "__code__")


def _reachable(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield `roots` and the jit functions that their code names, except Triton's own functions."""
    visited: set[int] = set()
    pending = list(roots)
    while pending:
        function = pending.pop(0)
        if id(function) in visited or owner_of_function(function) == "triton":
            continue
        visited.add(id(function))
        yield function
        scope = function.fn.__globals__
        named = (scope.get(name) for name in function.fn.__code__.co_names)
        pending += filter(_is_jit_callable, named)
