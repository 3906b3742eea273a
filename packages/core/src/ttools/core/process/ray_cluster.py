"""A Ray cluster: connected to, or started on this machine, and left as it was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ttools.core.errors import UsageError


def connect(address: str | None, *, extra: str) -> tuple[Any, Callable[[], None]]:
    """Connects to a cluster.

    Args:
        address: as `ray.init` takes it; None starts a cluster on this machine. One that this
            program is already connected to is used as it is.
        extra: what is to be installed where Ray is missing.

    Returns:
        The module `ray`, and a function that ends what this one began.

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
        raise UsageError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
    return ray, ray.shutdown
