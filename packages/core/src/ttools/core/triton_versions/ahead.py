"""What Triton does once in each process or for each kernel, done before it is needed, or elsewhere.

It hashes its files, and has C modules compiled by which it launches: a third of a second or more
each. Must not know why there is time for it.
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
    """Triton's hash of its own files, which the first compilation of a process takes long for."""
    from triton.runtime.cache import triton_key

    return str(triton_key())


def triton_file() -> str:
    """Where Triton is, or where it would be imported from."""
    spec = importlib.util.find_spec("triton")
    return str(spec.origin if spec is not None else "")


def use_hash(known: str, file: str) -> None:
    """Has Triton in this process take its hash from another process, which has made it.

    Args:
        known: what `hash_triton` gave there.
        file: what `triton_file` gave there; where it is another here, nothing is taken.
    """
    if known and file == triton_file():
        from triton.runtime import cache

        cache.triton_key = functools.cache(lambda: known)


def tells_leaks() -> bool:
    """Whether Triton is imported and tells what of it is not destroyed when the process ends."""
    library = sys.modules.get("triton._C.libtriton")
    return library is not None and type(library.ir.context).__module__ == "nanobind"


def import_argument_types() -> None:
    """Imports what Triton does when it looks at the first argument of a process."""
    for name in ("triton.tools.tensor_descriptor", "triton.experimental.gluon.nvidia.hopper"):
        with contextlib.suppress(ImportError):  # of another release
            importlib.import_module(name)


def know_compiler() -> None:
    """Has Triton load its driver, and ask the compiler of the GPU's machine code what it is."""
    from triton.compiler import make_backend
    from triton.runtime import driver

    make_backend(driver.active.get_current_target()).hash()


def build_one_at_a_time() -> None:
    """Has this process wait for C modules that another one is about to have compiled.

    Of those that do the same and share Triton's cache, where the module is found then.
    """
    import fcntl

    from triton import knobs
    from triton.backends.nvidia import driver

    original = getattr(driver, "compile_module_from_src", None)
    if original is None:
        return

    def compile_module_from_src(src: str, name: str, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # then both compile it
                lock = Path(knobs.cache.dir, f".ttools-{name}")
                fcntl.flock(held.enter_context(lock.open("w")), fcntl.LOCK_EX)
            return original(src=src, name=name, **kwargs)

    driver.compile_module_from_src = compile_module_from_src


def build_driver_module() -> None:
    """Has the C module of Triton's driver for NVIDIA compiled, unless the cache has it.

    Needs no GPU, and does nothing where it cannot be compiled: whoever needs it meets that again.
    """
    with contextlib.suppress(Exception):
        from triton.backends.nvidia.driver import CudaUtils

        CudaUtils()


def build_launchers() -> None:
    """Has the C modules by which kernels are launched compiled beside them, from now on.

    Of kernels that this process has not compiled yet. Triton 3.6 has one for each signature; later
    releases need none. One for descriptors depends on what becomes of the kernel, so that it is
    left to whoever launches it.
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
    with contextlib.suppress(Exception):  # whoever launches it meets that again
        from triton.backends.nvidia.driver import CudaLauncher

        CudaLauncher(source, _Nothing())


class _Nothing:
    """Stands for the metadata of a kernel that is not compiled yet."""

    tensordesc_meta = None

    def __getattr__(self, name: str) -> int:
        return 0
