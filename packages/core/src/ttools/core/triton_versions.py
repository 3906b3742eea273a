"""Every private name of Triton that ttools relies on, and every difference between its versions.

Supported: triton 3.6, 3.7, 3.8 and 3.9. Nothing here is imported from Triton before it is asked
for, so this file may be imported while `import triton` itself is still running. It must not know
what its callers do with what it finds.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.location import SourceLocation, excerpt

#: A kernel's signature: a Triton type per parameter, `constexpr`, or a tuple of such.
Signature: TypeAlias = "str | tuple[Signature, ...]"


@lru_cache(maxsize=1)
def triton_version() -> tuple[int, int]:
    """Major and minor version of the installed Triton."""
    import triton

    major, minor = str(triton.__version__).split(".")[:2]
    return int(major), int(re.sub(r"\D.*", "", minor))


# ---- the front end

# The nvidia backend rewrites tensor descriptors to pointers below compute capability 9.0 only.
_CAPABILITY_WITHOUT_DESCRIPTORS = 80


def run_ttir_passes(module: Any) -> None:
    """Runs the installed nvidia backend's own TTIR passes, descriptors rewritten, on `module`.

    Up to 3.7 its list also rewrites block pointers; 3.8 gave `tl.make_block_ptr` up.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    CUDABackend.make_ttir(module, {}, None, _CAPABILITY_WITHOUT_DESCRIPTORS)


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


def installed_triton() -> str:
    """The version of the installed Triton, as it writes it."""
    import triton

    return str(triton.__version__)


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

    Triton does not tell a backend which kernel it compiles, and leaves the path of its source out
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
    constants = getattr(source, "constants", {}).values()
    return CompiledSource(tuple(_reachable([kernel, *filter(_is_jit_callable, constants)])))


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
        if id(function) in seen or str(function.__module__).startswith("triton."):
            continue
        seen.add(id(function))
        yield function
        scope = function.fn.__globals__
        named = (scope.get(name) for name in function.fn.__code__.co_names)
        todo += filter(_is_jit_callable, named)


# ---- launching


def is_descriptor(type_name: object) -> bool:
    """Whether a type in a signature is that of a host-side tensor descriptor."""
    return isinstance(type_name, str) and type_name.startswith("tensordesc")


def descriptor_types(type_name: str) -> list[str]:
    """The Triton types of the parameters that a host-side tensor descriptor becomes.

    Base, shape, strides, flags, then shape and strides once more for the kernel's own use. The
    flags are the padding and, from 3.7, the rounding to TF32.
    """
    match = re.match(r"tensordesc\w*<([^[>]*)\[([^\]]*)\]", type_name)
    if match is None:
        raise TtoolsError(f"Triton passes a tensor descriptor of unknown form: {type_name}")
    given_rank = re.search(r",input_rank=(\d+)", type_name)
    rank = int(given_rank[1]) if given_rank else match[2].count(",") + 1
    flags = ["i1"] * (1 if triton_version() < (3, 7) else 2)
    return ["*" + match[1], *["i64"] * (2 * rank), *flags, *["i32"] * rank, *["i64"] * rank]


def descriptor_values(descriptor: Any) -> list[Any]:
    """The arguments that a host-side tensor descriptor becomes, as `descriptor_types` lists."""
    flags = [descriptor.padding == "nan"]
    if triton_version() >= (3, 7):
        flags.append(bool(getattr(descriptor, "round_f32_to_tf32", False)))
    extents: Sequence[int] = [*descriptor.shape, *descriptor.strides]
    return [descriptor.base, *extents, *flags, *extents]


def driver_config() -> Any:
    """What holds Triton's active driver and takes another (`set_active`)."""
    from triton.runtime import driver

    return driver


def active_driver() -> Any:
    """Triton's active driver; None if there is none (no GPU, and ours switched off)."""
    try:
        return driver_config().active
    except RuntimeError:
        return None


# ---- the classes that `interpret()` intercepts


def jit_function_class() -> Any:
    """`triton.runtime.jit.JITFunction`."""
    from triton.runtime.jit import JITFunction

    return JITFunction


def autotuner_class() -> Any:
    """`triton.runtime.autotuner.Autotuner`."""
    from triton.runtime.autotuner import Autotuner

    return Autotuner


def interpreted_function_class() -> Any:
    """What `@triton.jit` makes under TRITON_INTERPRET=1; None if none was made yet."""
    module = sys.modules.get("triton.runtime.interpreter")
    return getattr(module, "InterpretedFunction", None)


def innermost_jit_function(kernel: Any) -> Any:
    """The jit function under any layers of autotune and heuristics."""
    while not hasattr(kernel, "fn") or not hasattr(kernel.fn, "__code__"):
        kernel = kernel.fn
    return kernel


def kernel_name(kernel: Any) -> str:
    """The Python name of a kernel under any layers of autotune and heuristics."""
    return str(innermost_jit_function(kernel).fn.__name__)


# ---- the kernels that a GPU's backend compiled


def compiled_kernel_class() -> Any:
    """`triton.compiler.CompiledKernel`; launchers call its `launch_metadata(grid, stream, *args)`
    with the arguments of each launch before they make it.
    """
    from triton.compiler.compiler import CompiledKernel

    return CompiledKernel


@dataclass(frozen=True)
class CompiledKernelFacts:
    """What a `CompiledKernel` says of itself.

    Attributes:
        name: of the Python function; that of the binary if it was made of an IR file.
        function: the name it has in the binary.
        parameters: names of all its parameters, constants included.
        ctas: thread blocks that make one program.
        ttir: text of its TTIR, if it was kept.
    """

    name: str
    function: str
    parameters: tuple[str, ...]
    ctas: int
    ttir: str | None


def compiled_kernel_facts(kernel: Any) -> CompiledKernelFacts:
    """The facts of a `CompiledKernel`."""
    python = getattr(kernel.src, "fn", None)
    ttir = kernel.asm.get("ttir")
    return CompiledKernelFacts(
        name=str(kernel.name) if python is None else kernel_name(python),
        function=str(kernel.name),
        parameters=tuple(getattr(python, "arg_names", ())),
        ctas=int(getattr(kernel.metadata, "num_ctas", 1)),
        ttir=ttir if isinstance(ttir, str) else None,
    )


@dataclass(frozen=True)
class SpecialisedSource:
    """What a kernel was compiled from.

    Attributes:
        function: the `JITFunction`.
        signature: Triton's type of each parameter.
        constants: values by path of parameter indices.
        hints: Triton's attributes by path of parameter indices.
        options: of the launch that a compilation depends on.
    """

    function: Any
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    hints: dict[tuple[int, ...], Any]
    options: dict[str, Any]


def specialised_source(kernel: Any) -> SpecialisedSource | None:
    """What a `CompiledKernel` was compiled from; None if from no Python function."""
    source: Any = getattr(kernel, "src", None)
    metadata: Any = getattr(kernel, "metadata", None)
    if getattr(source, "fn", None) is None or metadata is None:
        return None
    names = ("num_warps", "num_ctas", "num_stages", "enable_fp_fusion")
    return SpecialisedSource(
        function=source.fn,
        signature=dict(source.signature),
        constants=dict(source.constants),
        hints=dict(source.attrs),
        options={name: getattr(metadata, name) for name in names if hasattr(metadata, name)},
    )


def set_benchmark(tuner: Any, benchmark: Callable[..., Any]) -> None:
    """Lets an autotuner time its configurations with `benchmark(call, quantiles)`."""
    # A cached property of the class: what the instance holds comes first.
    tuner.__dict__["do_bench"] = benchmark


_interpret_lock = threading.Lock()


def take_over_triton_interpret() -> bool:
    """Makes `@triton.jit` compile although TRITON_INTERPRET is set; call before decorating.

    Returns:
        Whether it was set.

    Raises:
        UsageError: Triton's own library was already imported in interpreter mode, which cannot
            be undone in this process.
    """
    with _interpret_lock:
        was_set = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")
        if was_set and "triton" not in sys.modules:
            del os.environ["TRITON_INTERPRET"]
        from triton import knobs, language

        if not isinstance(language.zeros, jit_function_class()):
            raise UsageError(
                "TRITON_INTERPRET was set when Triton was imported, so its own library runs in "
                "Triton's interpreter and ttools would see no launch; unset TRITON_INTERPRET, or "
                "import ttools and enter interpret() before importing triton"
            )
        if knobs.runtime.interpret:
            os.environ.pop("TRITON_INTERPRET", None)
            # The knob may also have been set in the program.
            knobs.runtime.interpret = False
            was_set = True
        return was_set


# ---- the language, for the eager engine


def semantic_class() -> Any:
    """What gives `tl`'s functions their meaning: types, promotion, broadcasting."""
    from triton.language.semantic import TritonSemantic

    return TritonSemantic


def mlir_context() -> Any:
    """An MLIR context with Triton's dialects."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    return context


def mlir_builder(context: Any) -> Any:
    """A builder of MLIR, positioned nowhere."""
    from triton._C.libtriton import ir

    return ir.builder(context)


def begin_function(builder: Any, name: str, parameters: list[Any]) -> tuple[Any, Any]:
    """A module with one function without results, and that function, its body open.

    Args:
        builder: a new one.
        name: of the function.
        parameters: their MLIR types.
    """
    module = builder.create_module()
    type_ = builder.get_function_ty(parameters, [])
    function = builder.get_or_insert_function(module, name, type_, "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    return module, function


def language_type(name: Signature) -> Any:
    """`tl`'s type for a type in a kernel's signature."""
    from triton import language

    return language.str_to_ty(name, None)


def combine_function(region_builder: Any) -> Any:
    """The jit function that a reduction, scan or map was given.

    Args:
        region_builder: the closure by which `triton.language.core` writes it into MLIR.
    """
    cells = dict(
        zip(region_builder.__code__.co_freevars, region_builder.__closure__ or (), strict=True)
    )
    for name in ("combine_fn", "scalar_fn"):
        if name in cells:
            return cells[name].cell_contents
    raise TtoolsError("Triton's reductions changed; this is a defect of ttools, please report it")


def argument_type(argument: Any) -> str:
    """Triton's type of a kernel argument, as in a signature."""
    from triton.runtime.jit import mangle_type

    return str(mangle_type(argument))


def static_assertion_failure(place: SourceLocation | None, message: str) -> Exception:
    """What Triton raises where a `static_assert` fails, and its autotuner survives."""
    from triton.compiler.errors import CompileTimeAssertionFailure

    text = "static_assert failed" + (f": {message}" if message else "")
    return _located(CompileTimeAssertionFailure, place, text)


def is_type_mismatch(error: Exception) -> bool:
    """Whether Triton's semantic layer says that operands do not go together."""
    from triton.language.semantic import IncompatibleTypeErrorImpl

    return isinstance(error, IncompatibleTypeErrorImpl)


def compilation_error(place: SourceLocation | None, cause: Exception) -> Exception:
    """Triton's error for a mistake in a kernel's source.

    Args:
        place: where it is.
        cause: what Triton's own library raised.
    """
    from triton.compiler.errors import CompilationError

    if isinstance(cause, CompilationError):
        return cause  # type: ignore[no-any-return]
    text = str(getattr(cause, "message", "")) or str(cause) or type(cause).__name__
    return _located(CompilationError, place, text)


def _located(kind: Any, place: SourceLocation | None, text: str) -> Exception:
    error: Any = kind(None, None, text)
    # Made without a syntax tree it would say that there is no source.
    lines = [f"{place}: {text}", excerpt(place)] if place is not None else [text]
    error.message = "\n".join(filter(None, lines))
    return error  # type: ignore[no-any-return]


def launch_metadata(values: dict[str, Any]) -> Any:
    """What a launch hook is given: values that it asks for with `get()`."""
    from triton.compiler.compiler import LazyDict

    return LazyDict(values)


# ---- kernels made again in another process


def is_triton_kernel(value: Any) -> bool:
    """Whether it is a jit function, or one under autotune or heuristics."""
    return isinstance(value, (jit_function_class(), autotuner_class(), heuristics_class()))


def heuristics_class() -> Any:
    """`triton.runtime.autotuner.Heuristics`."""
    from triton.runtime.autotuner import Heuristics

    return Heuristics


def public_name(kernel: Any) -> tuple[str, str] | None:
    """Module and name of a function of Triton's own library; None for others."""
    inner = innermost_jit_function(kernel)
    module, name = str(inner.fn.__module__), str(inner.fn.__name__)
    own = module.startswith("triton.") and getattr(sys.modules.get(module), name, None) is kernel
    return (module, name) if own else None


def plain_autotuner(tuner: Any, configs: Sequence[Any]) -> Any:
    """An autotuner like another, over other configurations, which prunes none of them."""
    hooks = {
        name: getattr(tuner, name)
        for name in ("pre_hook", "post_hook")
        if getattr(tuner, f"user_defined_{name}")
    }
    return autotuner_class()(
        tuner.fn,
        tuner.arg_names,
        list(configs),
        list(tuner.keys),
        list(tuner.reset_to_zero),
        list(tuner.restore_value),
        **hooks,
    )


#: How a jit function keeps what `triton.jit` was given.
_JIT_OPTIONS = {
    "version": "version",
    "do_not_specialize": "do_not_specialize",
    "do_not_specialize_on_alignment": "do_not_specialize_on_alignment",
    "debug": "debug",
    "noinline": "noinline",
    "repr": "_repr",
    "launch_metadata": "launch_metadata",
}


def rebuilding(kernel: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and arguments that make a kernel again, each of which pickle can write.

    Raises:
        UsageError: it is of a class that is not Triton's own.
    """
    if isinstance(kernel, autotuner_class()):
        plain = plain_autotuner(kernel, kernel.configs)
        hooks = {
            name: getattr(kernel, name)
            for name in ("pre_hook", "post_hook")
            if getattr(kernel, f"user_defined_{name}")
        }
        parts = (plain.fn, plain.configs, plain.keys, plain.reset_to_zero, plain.restore_value)
        return _autotuned_again, (*parts, hooks)
    if isinstance(kernel, heuristics_class()):
        return _heuristics_again, (kernel.fn, kernel.values)
    if type(kernel) is not jit_function_class():
        raise UsageError(f"`{kernel_name(kernel)}` is a {type(kernel).__name__}")
    options = {name: getattr(kernel, kept, None) for name, kept in _JIT_OPTIONS.items()}
    return _jit_again, (kernel.fn, options)


def _autotuned_again(
    function: Any,
    configs: list[Any],
    keys: list[str],
    reset_to_zero: list[str],
    restore_value: list[str],
    hooks: dict[str, Any],
) -> Any:
    own = (function, function.arg_names, configs, keys, reset_to_zero, restore_value)
    return autotuner_class()(*own, **hooks)


def _heuristics_again(function: Any, values: dict[str, Any]) -> Any:
    return heuristics_class()(function, function.arg_names, values)


def _jit_again(function: Any, options: dict[str, Any]) -> Any:
    return jit_function_class()(function, **options)
