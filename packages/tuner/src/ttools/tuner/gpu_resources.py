"""What a kernel takes of the GPU that it was loaded onto, by the driver's own word.

Must not know why it is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ttools.core import triton_versions
from ttools.core.compilation.resources import Resources, occupancy
from ttools.core.compilation.targets import target_of_machine
from ttools.tuner.offline import figures_of


def loaded_figures(kernel: Any) -> Mapping[str, Any] | None:
    """Static resources of a launched kernel, as they are stored; None if nobody knows them."""
    loaded = triton_versions.loaded_resources(kernel)
    target = target_of_machine()
    if loaded is None or target is None:
        return None
    # Warps that a specialised kernel adds for loads or matrix products count too.
    asked = re.search(r"\.(?:reqntid|maxntid) (\d+)", str(kernel.asm.get("ptx", "")))
    threads = int(asked[1]) if asked else loaded.warps * target.threads
    own = Resources(
        registers=loaded.registers,
        spilled=loaded.spilled,
        spill_instructions=0,
        shared=loaded.shared,
        warps=threads // target.threads,
        threads=threads,
    )
    return figures_of(own, occupancy(own, target.limits) if target.limits else None, target)
