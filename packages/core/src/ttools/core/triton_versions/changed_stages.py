"""Compiles kernels with modified TTIR for a limited time.

Up to Triton 3.7, the hook that changes compilation stages is not part of any cache key. Neither the
caches in kernel objects nor Triton's cache on disk may therefore be shared with normal
compilations.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core.patches import Patches

#: A function that receives a module after the clean-up passes of Triton's backend, the compilation
#: options, and the functions that the backend gives to the front end.
Change = Callable[[Any, Any, Any], None]


@contextmanager
def changed_ttir(change: Change) -> Iterator[None]:
    """Recompile each kernel that is launched in the `with` block, and apply `change` to it.

    If the program has installed a hook of its own, that hook runs after `change`, just as it would
    run after Triton's own stage.
    """
    from triton import knobs
    from triton.runtime.jit import JITFunction

    launched: dict[int, Any] = {}

    def anew(run: Any) -> Any:
        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if id(kernel) not in launched:
                launched[id(kernel)] = kernel
                kernel.device_caches.clear()
            return run(kernel, *args, **kwargs)

        return launch

    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope(), Patches() as patches:
        knobs.cache.dir = folder
        patches.wrap(knobs.runtime, "add_stages_inspection_hook", lambda it: _hook(change, it))
        patches.wrap(JITFunction, "run", anew)
        try:
            yield
        finally:
            for kernel in launched.values():
                kernel.device_caches.clear()


def _hook(change: Change, beneath: Any) -> Any:
    def hook(*args: Any) -> Any:
        if not args:
            text = "changed by ttools" + ("" if beneath is None else str(beneath()[0]))
            return text, hashlib.sha256(text.encode()).hexdigest()
        backend, stages, options, *_ = args
        ttir = stages["ttir"]

        def changed(module: Any, metadata: Any) -> Any:
            module = ttir(module, metadata)
            change(module, options, backend.get_codegen_implementation(options))
            return module

        stages["ttir"] = changed
        return None if beneath is None else beneath(*args)

    return hook
