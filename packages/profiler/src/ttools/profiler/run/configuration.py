"""An autotuner's configuration as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def config_text(config: Mapping[str, Any] | None) -> str:
    """`BLOCK=64, num_warps=4`; empty without one."""
    return ", ".join(f"{name}={value}" for name, value in (config or {}).items())
