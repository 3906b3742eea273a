"""Pools of workers: parallel jobs, environments of slots, Ray."""

from __future__ import annotations

import threading
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import TtoolsError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.store.store import TuningStore
from ttools.tuner.workers import worker_pool
from ttools.tuner.workers.fork_server import ForkServer
from ttools.tuner.workers.serving import Answer, Request
from ttools.tuner.workers.worker_pool import WorkerPool, local_workers, start_pools
from ttools.tuner.workers.worker_slot import Job


@pytest.fixture(autouse=True)
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable bounds checks, so that kernels can crash their process."""
    monkeypatch.setenv("TTOOLS_UNSAFE", "1")


@triton.jit
def shift_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    if KIND == "crash":
        offs = offs.to(tl.int64) * 1_000_000_000_000
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + 1, mask=mask)


def variable_is_two(arguments: dict) -> None:
    import os

    assert os.environ["TTOOLS_TEST_SLOT"] == "2"


def tuned(run: TuningRun, *configs: triton.Config) -> Any:
    x, out = torch.rand(500), torch.zeros(500)
    kernel = triton.autotune(list(configs), key=["n"])(shift_kernel)
    with run:
        kernel[lambda meta: (triton.cdiv(500, meta["BLOCK"]),)](x, out, 500)
    assert torch.equal(out, x + 1)
    (result,) = run.results
    return result


def config(block: int, kind: str = "right", **options: Any) -> triton.Config:
    return triton.Config({"BLOCK": block, "KIND": kind}, **options)


def job_of(*keys: str, later: bool = False) -> Job:
    nothing: Any = None
    return Job(opening=nothing, request=Request("compile", keys), timeout=1.0, later=later)


def test_awaited_jobs_come_first() -> None:
    begun, released, finished_jobs = threading.Event(), threading.Event(), []

    def slot(job: Job) -> Answer:
        begun.set()
        assert released.wait(20)
        finished_jobs.append(job.request.keys[0])
        return Answer()

    workers = WorkerPool([slot])
    futures = [workers.submit(job_of("first", later=True))]
    assert begun.wait(20)
    futures += [workers.submit(job_of(f"later {n}", later=True)) for n in range(3)]
    given_up = workers.submit(job_of("given up", later=True))
    futures += [workers.submit(job_of(f"soon {n}")) for n in range(2)]
    assert given_up.cancel()
    released.set()
    for future in futures:
        future.result(20)
    workers.close()
    assert finished_jobs == ["first", "soon 0", "soon 1", "later 0", "later 1", "later 2"]


def test_a_slow_slot_does_not_block_others() -> None:
    begun, released = threading.Event(), threading.Event()

    def slow(job: Job) -> Answer:
        begun.set()
        assert released.wait(20)
        return Answer(value="slow")

    def quick(job: Job) -> Answer:
        assert begun.wait(20)
        return Answer(value="quick")

    workers = WorkerPool([slow, quick])
    futures = [workers.submit(job_of()) for _ in range(6)]
    finished = set()
    for future in as_completed(futures, 20):
        finished.add(future)
        if len(finished) == 5:  # the slow slot has been working on its first job
            released.set()
    assert sorted(f.result().value for f in futures) == [*["quick"] * 5, "slow"]
    workers.close()


@pytest.mark.slow
def test_slots_have_their_own_variables() -> None:
    slots = [{"TTOOLS_TEST_SLOT": "2"}] * 2
    run = TuningRun(
        TuneOptions(workers=1),
        measures=lambda: local_workers([ForkServer(slot) for slot in slots]),
    )
    hooked = [config(block, pre_hook=variable_is_two) for block in (32, 64)]
    for hooked_config in hooked:  # the last launch is made here
        hooked_config.pre_hook = variable_is_two
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTOOLS_TEST_SLOT", "2")
        result = tuned(run, *hooked)
    assert [trial.status for trial in result.trials.values()] == ["ok", "ok"]


def test_a_local_ray_cluster(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ttools-tuner[ray] is not installed")
    from ttools.tuner.workers.ray_workers import ray_workers

    store = tmp_path / "store.sqlite"
    options = TuneOptions(workers=1, search="exhaustive")
    first = (config(32), config(64, "crash"), config(128))
    result = tuned(TuningRun(options, store=store, measures=lambda: ray_workers(2)), *first)
    statuses = {trial.values["BLOCK"]: trial.status for trial in result.trials.values()}
    assert statuses == {32: "ok", 64: "crashed", 128: "ok"}
    # ---- it continues from the store
    again = TuningRun(options, store=store, measures=lambda: ray_workers(1))
    result = tuned(again, *first, config(256))
    assert len(result.new) == 1
    kept = TuningStore(store)
    assert len(kept.entries()[0].trials) == 4
    kept.close()


class Server:
    """Replaces a server; it forks no process."""

    def __init__(self) -> None:
        self.forks = self.closed = 0

    def fork(self) -> Any:
        self.forks += 1
        raise TtoolsError("no worker")

    def close(self) -> None:
        self.closed += 1

    def triton_hash(self) -> str:
        return "a hash"


def test_existing_servers_are_used_and_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "ForkServer", None)
    servers: dict[str, Any] = {"gpu": Server(), "compile": Server()}
    pools = start_pools(3, on_gpu=True, servers=servers)
    assert pools.triton_hash() == "a hash"
    pools.close()
    assert servers["gpu"].forks == servers["gpu"].closed == 1
    # Each slot has forked its first worker before the end.
    assert servers["compile"].forks == servers["compile"].closed == 3
