"""Which configuration of an autotuner a launch on the GPU is made with.

Must not know what the configuration is used for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core import triton_versions
from ttools.interpreter.backend.tuned_config import trying, tuning


@contextmanager
def known_configs() -> Iterator[None]:
    """While the context lasts, `autotuner_config` tells it, of trials and of chosen launches."""
    kind = triton_versions.autotuner_class()
    run, bench = kind.run, kind._bench

    def known_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with tuning(self):
            return run(self, *args, **kwargs)

    def known_bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        with trying(config):
            return bench(self, *args, config=config, **meta)

    kind.run, kind._bench = known_run, known_bench
    try:
        yield
    finally:
        kind.run, kind._bench = run, bench
