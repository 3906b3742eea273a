"""Compiles LLVM IR text to a relocatable native object, and loads such objects.

This module contains the code that uses llvmlite: the target, the pass pipeline, linking and symbol
resolution. An object contains no absolute addresses, so it can be stored on disk and loaded by
another process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.lazy_values import once
from ttools.interpreter.native.cpu_names import features_here
from ttools.interpreter.native.object_file import undefined_symbols

#: The function that every emitted module defines.
ENTRY = "ttools_run"

#: First line of a module for which a short list of passes is used at each level, because it
#: consists of vector instructions that LLVM cannot simplify, or because its speed does not matter.
QUICK = "; ttools: quick"
#: First line of a module for which a short list of passes is used and, in addition, the code
#: generator does not optimise. The time of the code generator's optimisations grows with the square
#: of the number of loops in a function; for unrolled kernels, it is minutes.
QUICKEST = "; ttools: quickest"

_X86 = ("x86_64", "AMD64", "i686")

# Features that this machine must have if code is generated for one of the x86-64 levels.
_LEVEL_FEATURES = {
    "x86-64": (),
    "x86-64-v2": ("sse4.2", "popcnt"),
    "x86-64-v3": ("avx2", "fma", "f16c", "bmi2"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
_LEVEL_LANES = {"x86-64": 4, "x86-64-v2": 4, "x86-64-v3": 8, "x86-64-v4": 16}

# llvmlite's own lock protects single calls. This lock protects a whole compilation, and a fork
# waits for it. It is re-entrant, because the garbage collector may unload an object during a
# compilation.
_llvm_lock = threading.RLock()


@dataclass(frozen=True)
class Target:
    """The CPU and the features for which code is generated; both are in the object cache's key."""

    cpu: str
    features: str


class _Mapping:
    """Keeps a loaded object mapped as long as its functions can be called."""

    def __init__(self, tracker: Any) -> None:
        # Do not unmap at exit, because threads may still sleep in the code; the system unmaps it.
        weakref.finalize(self, _unload, tracker).atexit = False


def _unload(tracker: Any) -> None:
    with _llvm_lock:
        tracker.close()


class NativeCode:
    """Native code that is loaded into this process.

    Attributes:
        symbols: Address of each exported function, valid as long as this object lives.
        address: Address of the first function, normally `void ttools_run(ptr launch, ptr arena)`.
        function: The first function as a ctypes function of two addresses. A call releases the GIL.
    """

    def __init__(self, tracker: Any, exports: Sequence[str]) -> None:
        self._mapping = _Mapping(tracker)
        self.symbols: dict[str, int] = {name: tracker[name] for name in exports}
        self.address = self.symbols[exports[0]]
        self.function = _ENTRY_TYPE(self.address)
        self.function.mapping = self._mapping


_ENTRY_TYPE: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@lru_cache(maxsize=1)
def _llvm() -> Any:
    """Return `llvmlite.binding`, imported and initialised at first use."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise TtoolsError(
            f"llvmlite, which compiles kernels for the CPU, cannot be imported: {error}\n"
            "reinstall it: pip install --force-reinstall llvmlite"
        ) from error
    with _llvm_lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    return llvm


def llvm_version() -> str:
    """Return the version of LLVM inside llvmlite."""
    return ".".join(map(str, _llvm().llvm_version_info))


@lru_cache(maxsize=1)
def _host_features() -> dict[str, bool]:
    return dict(_llvm().get_host_cpu_features())


@lru_cache(maxsize=8)
def _target(cpu: str) -> Target:
    llvm = _llvm()
    # LLVM would split 512-bit vectors for CPUs that reduce their clock rate for them. The emitter
    # has already chosen the width of vectors, so this is disabled.
    wide = "-prefer-256-bit" if platform.machine() in _X86 else ""
    # A virtual machine may lack instructions that a CPU of this name has, so the features of the
    # host are listed, too.
    if cpu in ("", "native", "host", host := llvm.get_host_cpu_name()):
        features = llvm.get_host_cpu_features().flatten()
        return Target(host, ",".join(filter(None, [features, wide])))
    missing = [f for f in _LEVEL_FEATURES.get(cpu, ()) if not _host_features().get(f)]
    if missing:
        raise UsageError(
            f"TTOOLS_CPU={cpu}: this machine cannot run code for that CPU, because it lacks "
            f"{', '.join(missing)}; unset TTOOLS_CPU to compile for this machine"
        )
    if cpu in _LEVEL_FEATURES:
        return Target(cpu, wide)
    return Target(cpu, ",".join(filter(None, [wide, features_here(cpu, llvm)])))


def host_target(cpu: str | None = None) -> Target:
    """Return the CPU that code is generated for.

    Args:
        cpu: An LLVM CPU name such as `x86-64-v3`; by default `TTOOLS_CPU`, else this machine.
    """
    return _target(os.environ.get("TTOOLS_CPU", "") if cpu is None else cpu)


def host_lanes(cpu: str | None = None) -> int:
    """Return the number of f32 lanes in one vector register of the target: 16, 8 or 4."""
    target = host_target(cpu)
    if target.cpu in _LEVEL_LANES:
        return _LEVEL_LANES[target.cpu]
    return _probed_lanes(target)


@lru_cache(maxsize=8)
def _probed_lanes(target: Target) -> int:
    """Determine the number of lanes from the code that LLVM generates for an addition of bytes.

    CPUs with wide registers for bytes (AVX2 or AVX-512BW) also have wide registers for all other
    types.
    """
    text = """
    define <64 x i8> @f(<64 x i8> %a, <64 x i8> %b) {
      %c = add <64 x i8> %a, %b
      ret <64 x i8> %c
    }
    """
    llvm = _llvm()
    with _llvm_lock, llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        assembly = _machine(target, 0).emit_assembly(module)
    additions = " ".join(line for line in assembly.splitlines() if "paddb" in line)
    if "%zmm" in additions:
        return 16
    return 8 if "%ymm" in additions else 4


@lru_cache(maxsize=8)
def _machine(target: Target, opt: int) -> Any:
    """Return LLVM's target machine, which must be used under the lock.

    The target machine is cached, because it caches data about the target's instructions. With a new
    one, LLVM needs a tenth more time for a small kernel.
    """
    llvm = _llvm()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        # Position-independent code in the small model contains no absolute addresses.
        cpu=target.cpu,
        features=target.features,
        opt=opt,
        reloc="pic",
        codemodel="small",
    )


def compile_ir(
    llvm_ir: str,
    *,
    name: str = "kernel",
    cpu: str | None = None,
    opt: int = 2,
    phases: dict[str, float] | None = None,
) -> bytes:
    """Compile a module to native object code.

    Args:
        llvm_ir: Text of a module that defines `ttools_run`.
        name: Name of the kernel, for messages.
        cpu: LLVM name of the CPU; by default `TTOOLS_CPU`, or else this machine.
        opt: LLVM's optimisation level, 0 to 3, except that 1 is a shorter list of passes.
        phases: Receives the seconds of the phases `parse`, `optimise` and `codegen`.

    Raises:
        TtoolsError: LLVM rejects the text, which is a defect of the emitter.
    """
    llvm = _llvm()
    clock = _Clock({} if phases is None else phases)
    with _llvm_lock, llvm.create_context() as context:
        with clock("parse"), _emitter_defect(name):
            module = llvm.parse_assembly(llvm_ir, context)
        # The module must be destroyed before its context, even if LLVM rejects the module.
        level = 0 if llvm_ir.startswith(QUICKEST) else opt
        with module:
            machine = _machine(host_target(cpu), level)
            with clock("parse"), _emitter_defect(name):
                module.verify()
            with clock("optimise"):
                _optimise(module, machine, opt, quick=llvm_ir.startswith((QUICK, QUICKEST)))
            with clock("codegen"), _emitter_defect(name):
                return bytes(machine.emit_object(module))


# The passes of level 1. Compared with level 2, they take half the time, and the code is about a
# twentieth slower (softmax, matmul, attention, layer norm). Without loop rotation and unrolling,
# matmul would be another tenth slower.
_QUICK_PASSES = (
    "always_inliner",
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "loop_rotate",
    "loop_unroll",
    "simplify_cfg",
    "instruction_combine",
)
_QUICKEST_PASSES = ("always_inliner", "sroa", "simplify_cfg", "instruction_combine")
# The passes on modules before and after the passes on functions; see `_optimise`.
_BEFORE_FUNCTIONS = (
    "always_inliner",
    "global_dead_code_eliminate",
    "ipsccp",
    "dead_arg_elimination",
)
_AFTER_FUNCTIONS = ("loop_unroll", "instruction_combine", "simplify_cfg")


def _optimise(module: Any, machine: Any, opt: int, *, quick: bool) -> None:
    """Run LLVM's passes on a module.

    LLVM's default passes simplify each function before and after they inline it. Emitted functions
    are always or never inlined. Therefore they are inlined first and simplified once, which takes a
    fifth less time. For most kernels, the machine code is the same.
    """
    llvm = _llvm()
    with llvm.create_pipeline_tuning_options(speed_level=opt) as tuning:
        # The emitted code consists of vector instructions already, so these passes would only take
        # time.
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_interleaving = False
        with llvm.create_pass_builder(machine, tuning) as builder:
            if quick and opt > 0:
                _run_passes(_QUICKEST_PASSES, module, builder)
            elif opt == 1:
                _run_passes(_QUICK_PASSES, module, builder)
            elif opt == 0 or any(map(_may_be_inlined, module.functions)):
                with _freed(builder.getModulePassManager()) as passes:
                    passes.run(module, builder)
            else:
                _run_passes(_BEFORE_FUNCTIONS, module, builder)
                with _freed(builder.getFunctionPassManager()) as passes:
                    for function in module.functions:
                        if not function.is_declaration:
                            passes.run(function, builder)
                _run_passes(_AFTER_FUNCTIONS, module, builder)


def _may_be_inlined(function: Any) -> bool:
    """Return whether LLVM's default passes decide whether a function is inlined."""
    if function.is_declaration or function.linkage.name != "internal":
        return False
    return not re.search(rb"\b(always|no)inline\b", b" ".join(function.attributes))


def _run_passes(names: Sequence[str], module: Any, builder: Any) -> None:
    with _freed(_llvm().create_new_module_pass_manager()) as passes:
        for name in names:
            getattr(passes, f"add_{name}_pass")()
        passes.run(module, builder)


@contextmanager
def _freed(passes: Any) -> Iterator[Any]:
    """Free a pass manager at the end of the context."""
    try:
        yield passes
    finally:
        _free(passes)


def _free(passes: Any) -> None:
    """Free a pass manager, because llvmlite up to 0.50 leaks 70 KiB for each compilation.

    The class of the pass manager inherits `_dispose` from `ObjectRef`, which frees nothing, instead
    of the method of `NewPassManager`.
    """
    from llvmlite.binding.ffi import ObjectRef
    from llvmlite.binding.newpassmanagers import NewPassManager

    if type(passes)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(passes)
        passes.detach()
    else:
        passes.close()


@contextmanager
def _emitter_defect(name: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise TtoolsError(
            f"the code generated for kernel `{name}` is not valid LLVM IR; "
            f"this is a bug in ttools; please report it\n{error}"
        ) from error


class _Clock:
    """Adds the seconds spent in named blocks to a dictionary."""

    def __init__(self, phases: dict[str, float]) -> None:
        self._phases = phases

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.perf_counter() - start


# ---- loading

_library_names = count()


@once
def _linker() -> Any:
    # JITLink maps the sections of an object next to each other, as the small code model requires.
    return _llvm().create_lljit_compiler(None, use_jit_link=True, suppress_errors=True)


@lru_cache(maxsize=1)
def _libraries() -> list[ctypes.CDLL]:
    """Return the libraries with external functions: the C library, libm and libgcc's runtime."""
    libraries = []
    for name in (None, "libm.so.6", "libgcc_s.so.1"):
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            continue
    return libraries


def symbol_address(name: str) -> int | None:
    """Return the address in this process of an external function that native code calls."""
    for library in _libraries():
        try:
            function = library[name]
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


def load(object_code: bytes, exports: Sequence[str] = (ENTRY,)) -> NativeCode:
    """Map an object into this process and resolve the functions that it calls.

    Args:
        object_code: Result of `compile_ir` in this or another process.
        exports: Names of the functions to look up in the object.

    Raises:
        ValueError: The object is invalid, as a damaged cache entry is.
        TtoolsError: The code calls a function that this machine's libraries do not have.
    """
    symbols = [s for s in undefined_symbols(object_code) if s != "_GLOBAL_OFFSET_TABLE_"]
    addresses = {symbol: symbol_address(symbol) for symbol in symbols}
    missing = [symbol for symbol, address in addresses.items() if address is None]
    if missing:
        raise TtoolsError(
            f"the kernel's native code needs {', '.join(missing)}, which is in neither libm nor "
            "libgcc_s on this machine"
        )
    with _llvm_lock:
        builder = _llvm().JITLibraryBuilder().add_object_img(object_code)
        for name in exports:
            builder.export_symbol(name)
        for symbol, address in addresses.items():
            builder.import_symbol(symbol, address)
        try:
            tracker = builder.link(_linker(), f"ttools{next(_library_names)}")
        except RuntimeError as error:
            raise ValueError(f"the object cannot be linked: {error}") from error
    return NativeCode(tracker, exports)


# Hold the lock during a fork. Otherwise, another thread might hold the lock at that moment. This
# thread does not exist in the child, so the lock would never be released there.
os.register_at_fork(
    before=_llvm_lock.acquire,
    after_in_parent=_llvm_lock.release,
    after_in_child=_llvm_lock.release,
)
