"""Replaces NCCL process groups, which need GPUs, by Gloo groups.

`mapping.py` installs these replacements. Collectives on tensors of the device are computed with the
CPU's (`operators/kernels.py`), so the Gloo group is the backend for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

#: The default timeout that torch documents for NCCL.
_TIMEOUT = timedelta(minutes=10)


def group_replacements(torch: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, attribute, value) for what replaces NCCL groups by Gloo groups."""
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
    # `DistributedDataParallel` calls it from the second step on; it needs times of CUDA events.
    yield torch.distributed.Logger, "set_runtime_stats_and_log", lambda self: None


def _stand_in(gloo: Any) -> type:
    class Options:
        """Options that scripts and torch set; only the timeout has an effect."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream

    class ProcessGroupNCCL(gloo):  # type: ignore[misc]
        """A Gloo group with constructor and attributes of an NCCL group."""

        uid = -1

        def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
            super().__init__(store, rank, size, timeout=options._timeout)
            self.options.global_ranks_in_group = options.global_ranks_in_group
            self.options.group_name = options.group_name

    vars_of: Any = ProcessGroupNCCL
    vars_of.Options = Options
    return ProcessGroupNCCL
