"""The option `--ray ADDRESS[@N]`: a Ray cluster, and the number of parallel actors."""

from __future__ import annotations

from importlib.util import find_spec

from ttools.core.errors import UsageError

#: Starts a cluster on this machine for this run.
_LOCAL = "local"


def read_ray(text: str, *, what: str, extra: str) -> tuple[str | None, int]:
    """Return the address of a cluster, None for a local one, and the number of actors.

    Args:
        text: Value of the option.
        what: Plural noun for what runs N at a time.
        extra: Requirement that installs Ray.

    Raises:
        UsageError: The value is invalid, or Ray is not installed.
    """
    address, _, count = text.rpartition("@")
    address, actors = (address, count) if address else (text, "1")
    if not actors.isdecimal() or int(actors) < 1:
        raise UsageError(f"--ray {text}: give ADDRESS or ADDRESS@N, N {what} at a time")
    if find_spec("ray") is None:  # report it now, not after a long preparation
        raise UsageError(f"--ray: Ray is not installed: pip install '{extra}'")
    return (None if address == _LOCAL else address), int(actors)
