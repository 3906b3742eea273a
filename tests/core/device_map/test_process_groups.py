"""Tests of process groups on a mapped device, where Gloo replaces NCCL under its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from tests.forked_python import PYTHON

from ttools.core.device_map.operators import kernels

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU"),
    pytest.mark.usefixtures("mapped"),
]


@pytest.mark.parametrize("backend", ["gloo", "nccl", "cpu:gloo,cuda:nccl"])
def test_data_parallel_training(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GLOO_SOCKET_IFNAME", "lo")
    distributed: Any = torch.distributed
    assert distributed.is_nccl_available()
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    try:
        assert distributed.get_backend() == backend
        distributed.barrier()
        objects = [None]
        distributed.all_gather_object(objects, "one")
        assert objects == ["one"]
        x = torch.ones(3, device="cuda")
        distributed.all_reduce(x)
        gathered = [torch.zeros(3, device="cuda")]
        distributed.all_gather(gathered, x * 2)
        assert gathered[0].tolist() == [2] * 3
        distributed.broadcast(x, 0, async_op=True).wait()
        if torch.version.cuda is not None:
            return  # its C++ code measures times with CUDA events
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(3, 2).cuda(), device_ids=[0]
        )
        for _ in range(3):  # torch queries the times of steps from the second on
            model.zero_grad()
            model(x).sum().backward()
        assert model.module.weight.grad.tolist() == [[1] * 3] * 2
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("name", ["broadcast_", "allreduce_", "allgather_"])
def test_collectives_release_pythons_lock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that collectives do not use kernels from torch's table, which keep Python's lock.

    Gloo's threads need Python's lock to free tensors while they have the lock of their queue. If
    the thread that waits for the queue kept Python's lock, both would wait for ever. Operators that
    torch calls from Python release it.
    """
    requested: list[str] = []
    monkeypatch.setattr(kernels, "own_kernel", lambda name, key="CPU": requested.append(name))
    kernels.Computation(f"c10d::{name}", "CPU", None)
    assert requested == []
    kernels.Computation("aten::mm", "CPU", None)
    assert requested == ["aten::mm"]


RANKS = """\
import os

import torch
import torch.distributed as dist
import triton  # maps the children's devices, too


def train(rank, size, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/store"
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2).cuda(), device_ids=[0])
    model(torch.full((2, 3), rank + 1.0, device="cuda")).sum().backward()
    part = torch.empty(2, device="cuda")
    dist.reduce_scatter_tensor(part, torch.arange(4.0, device="cuda"))
    whole = torch.empty(4, device="cuda")
    dist.all_gather_into_tensor(whole, part)
    mean = torch.full((1,), float(rank), device="cuda")
    dist.all_reduce(mean, group=dist.new_group([0, 1], backend="nccl"))
    found = (model.module.weight.grad.tolist(), whole.tolist(), mean.tolist(), dist.get_backend())
    open(f"{folder}/{rank}", "w").write(repr(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(2, os.getcwd()), nprocs=2)
"""


@pytest.mark.slow
def test_ranks_in_separate_processes(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    command = [sys.executable, "-m", "ttools.cli.app", "interpret", "--device-map", "cuda=cpu"]
    subprocess.run([*command, "ranks.py"], cwd=tmp_path, check=True, timeout=200)
    expected = ([[3.0] * 3] * 2, [0.0, 2.0, 4.0, 6.0], [1.0], "nccl")
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == [repr(expected)] * 2


def test_nccl_is_restored_after_the_map() -> None:
    code = (
        "import torch; from ttools.core.device_map.mapping import map_devices as m\n"
        "d = torch.distributed\n"
        "known = lambda: (d.is_nccl_available(), dict(d.Backend.backend_capability))\n"
        "before = known()\n"
        "with m({'cuda': 'cpu'}): assert d.is_nccl_available()\n"
        "assert known() == before"
    )
    completed = PYTHON.run(["-c", code])
    assert completed.returncode == 0, completed.stderr
