"""Connections to a Ray cluster, which is started on this machine if necessary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ttools.core.errors import UsageError


def connect(address: str | None, *, extra: str) -> tuple[Any, Callable[[], None]]:
    """Connect to a cluster.

    Args:
        address: Address as in `ray.init`; None starts a cluster on this machine. An existing
            connection of this program is reused.
        extra: Name of the package to install if Ray is missing, for the error message.

    Returns:
        The module `ray`, and a function that undoes what this call started.

    Raises:
        UsageError: Ray is not installed, or there is no such cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(f"Ray is not installed: pip install '{extra}'") from error
    if ray.is_initialized():
        return ray, lambda: None
    local: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        place = f"at {address}" if address else "on this machine"
        raise UsageError(f"no Ray cluster {place}: {error}") from error
    return ray, ray.shutdown
