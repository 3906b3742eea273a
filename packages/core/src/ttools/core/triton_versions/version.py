"""The version of the installed Triton."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1)
def triton_version() -> tuple[int, int]:
    """Return major and minor version of the installed Triton."""
    import triton

    major, minor = str(triton.__version__).split(".")[:2]
    return int(major), int(re.sub(r"\D.*", "", minor))


def installed_triton() -> str:
    """Return the full version string of the installed Triton."""
    import triton

    return str(triton.__version__)
