"""Performs one-time work of Triton before it is needed.

Once per process, Triton hashes its own files; once per kernel or driver, it compiles a C module for
launches. Each of these takes a third of a second or more.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

from ttools.core.triton_versions.launching import is_descriptor


def hash_triton() -> str:
    """Return Triton's hash of its own files, which is slow to compute the first time."""
    from triton.runtime.cache import triton_key

    return str(triton_key())


def triton_file() -> str:
    """Return the path of the installed Triton, whether or not it has been imported."""
    spec = importlib.util.find_spec("triton")
    return str(spec.origin if spec is not None else "")


def use_hash(digest: str, file: str) -> None:
    """Make Triton in this process use a hash that another process has computed.

    Args:
        digest: Result of `hash_triton` in the other process.
        file: Result of `triton_file` in that process; if the result differs in this process, the
            hash is not used.
    """
    if digest and file == triton_file():
        from triton.runtime import cache

        cache.triton_key = functools.cache(lambda: digest)


def reports_leaks() -> bool:
    """Return whether Triton is imported and reports leaked objects at the end of the process."""
    library = sys.modules.get("triton._C.libtriton")
    return library is not None and type(library.ir.context).__module__ == "nanobind"


def import_argument_types() -> None:
    """Import the modules that Triton imports when it handles the first kernel argument."""
    for name in ("triton.tools.tensor_descriptor", "triton.experimental.gluon.nvidia.hopper"):
        with contextlib.suppress(ImportError):  # some releases lack this module
            importlib.import_module(name)


def load_compiler() -> None:
    """Load Triton's driver and determine the version of its GPU assembler."""
    from triton.compiler import make_backend
    from triton.runtime import driver

    make_backend(driver.active.get_current_target()).hash()


def build_one_at_a_time() -> None:
    """Make processes that share Triton's cache wait while another process builds the same C module.

    Afterwards, the waiting processes find the module in the cache.
    """
    import fcntl

    from triton import knobs
    from triton.backends.nvidia import driver

    original = getattr(driver, "compile_module_from_src", None)
    if original is None:
        return

    def compile_module_from_src(src: str, name: str, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # without a lock, each process compiles the module
                lock = Path(knobs.cache.dir, f".ttools-{name}")
                fcntl.flock(stack.enter_context(lock.open("w")), fcntl.LOCK_EX)
            return original(src=src, name=name, **kwargs)

    driver.compile_module_from_src = compile_module_from_src


def build_driver_module() -> None:
    """Compile the C module of Triton's NVIDIA driver unless it is cached.

    This needs no GPU. A failure is ignored, because it will occur again when the module is used.
    """
    with contextlib.suppress(Exception):
        from triton.backends.nvidia.driver import CudaUtils

        CudaUtils()


def build_launchers() -> None:
    """From now on, compile the C module of each launcher in parallel with its kernel.

    This applies to kernels that this process has not compiled yet. Triton 3.6 has one module per
    signature; later versions need none. Modules for kernels with descriptors depend on the compiled
    kernel, and are therefore still compiled at the launch.
    """
    from triton import compiler

    original = compiler.compile
    built: set[str] = set()

    @functools.wraps(original)
    def compile(source: Any, *args: Any, **kwargs: Any) -> Any:
        types = [*getattr(source, "signature", {}).values()]
        if str(types) not in built and not any(map(is_descriptor, types)):
            built.add(str(types))
            threading.Thread(target=_build_launcher, args=(source,), daemon=True).start()
        return original(source, *args, **kwargs)

    compiler.compile = compile


def _build_launcher(source: Any) -> None:
    with contextlib.suppress(Exception):  # a failure will occur again at the launch
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(source, _Nothing())


class _Nothing:
    """Placeholder for the metadata of a kernel that is not compiled yet."""

    tensordesc_meta = None

    def __getattr__(self, name: str) -> int:
        return 0
