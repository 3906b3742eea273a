"""The device map of processes that a mapped one starts, or whose user asks for it.

Both torch and Triton call `join_map` while they are imported: torch by the entry point
`torch.backends`, Triton by its backend. Must be cheap where no map is asked for.
"""

from __future__ import annotations

import os
import sys


def join_map() -> None:
    """Makes the map that `TTOOLS_DEVICE_MAP` asks for, if there is none, for the whole process."""
    if not os.environ.get("TTOOLS_DEVICE_MAP", "").strip():
        return
    from ttools.core.device_map.mapping import map_as_environment_says
    from ttools.core.errors import UsageError

    try:
        map_as_environment_says()
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
