"""Kernels that Triton compiles with something done to their TTIR, for a while.

Up to 3.7 the hook for stages is part of no key: neither what a kernel's function nor what Triton's
cache on disk has may be mixed up with what is compiled by it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core.patches import Patches

#: Is given a module after the clean-up of Triton's backend, the options that it is compiled with,
#: and what the backend gives the front end.
Change = Callable[[Any, Any, Any], None]


@contextmanager
def changed_ttir(change: Change) -> Iterator[None]:
    """Has `change` done to the module of each kernel that is launched meanwhile; they are new.

    A hook that the program has set comes after it, as it would after Triton's own stage.
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
            for each in launched.values():
                each.device_caches.clear()


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
