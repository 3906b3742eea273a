"""Process groups that ask for NCCL, which needs GPUs: gloo stands in.

`mapping.py` puts these replacements in place. Collectives of the device's tensors are computed with
the CPU's (`operators/kernels.py`), so the stand-in is the group's backend for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

#: As torch documents it for NCCL.
_TIMEOUT = timedelta(minutes=10)


def group_replacements(torch: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Every (owner, attribute, value) that makes a group of gloo's of one that asks for NCCL."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    c10d = torch.distributed.distributed_c10d
    group = _stand_in(c10d.ProcessGroupGloo)
    nccl = c10d.Backend.NCCL
    devices = {**c10d.Backend.backend_capability, nccl: ["cpu", "cuda"]}
    yield c10d, "_NCCL_AVAILABLE", True
    yield c10d, "ProcessGroupNCCL", group
    yield torch.distributed, "ProcessGroupNCCL", group
    yield c10d.Backend, "backend_capability", devices
    yield c10d, "default_pg_nccl_timeout", _TIMEOUT
    # `DistributedDataParallel` asks it from the second step on, for times that need CUDA's events.
    yield torch.distributed.Logger, "set_runtime_stats_and_log", lambda self: None


def _stand_in(gloo: Any) -> type:
    class Options:
        """What scripts and torch set of a group; only the timeout means something here."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream

    class ProcessGroupNCCL(gloo):  # type: ignore[misc]
        """A group of gloo's by the constructor and the attributes of one of NCCL's."""

        uid = -1

        def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
            super().__init__(store, rank, size, timeout=options._timeout)
            self.options.global_ranks_in_group = options.global_ranks_in_group
            self.options.group_name = options.group_name

    vars_of: Any = ProcessGroupNCCL
    vars_of.Options = Options
    return ProcessGroupNCCL
