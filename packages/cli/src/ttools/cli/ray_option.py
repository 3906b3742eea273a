"""`--ray ADDRESS[@N]`: a Ray cluster, and how much is done on it at a time."""

from __future__ import annotations

from importlib.util import find_spec

from ttools.core.errors import UsageError

#: A cluster of this machine, for this run.
_LOCAL = "local"


def read_ray(text: str, *, what: str, extra: str) -> tuple[str | None, int]:
    """The address of a cluster, None for one of this machine, and the number of actors.

    Args:
        text: as given.
        what: is done N at a time.
        extra: has Ray.

    Raises:
        UsageError: it makes no sense, or Ray is not installed.
    """
    address, _, count = text.rpartition("@")
    address, actors = (address, count) if address else (text, "1")
    if not actors.isdecimal() or int(actors) < 1:
        raise UsageError(f"--ray {text}: give ADDRESS or ADDRESS@N, N {what} at a time")
    if find_spec("ray") is None:  # now, not when the first of them is due
        raise UsageError(f"--ray: Ray is not installed: pip install '{extra}'")
    return (None if address == _LOCAL else address), int(actors)
