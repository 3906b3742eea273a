"""Installs the device map in child processes, and wherever the environment requests it.

torch and Triton call `join_map` during their import: torch by the entry point `torch.backends`,
Triton by its backend. The call is cheap if no map is requested.
"""

from __future__ import annotations

import os
import sys


def join_map() -> None:
    """Install the map that `TTOOLS_DEVICE_MAP` requests, for the rest of the process.

    An active map is left unchanged.
    """
    if not os.environ.get("TTOOLS_DEVICE_MAP", "").strip():
        return
    from ttools.core.device_map.mapping import map_as_environment_says
    from ttools.core.errors import UsageError

    try:
        map_as_environment_says()
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
