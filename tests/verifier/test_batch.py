"""Verification of all files of a folder, on one or several machines, some of which disappear."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from ttools.verifier.batch import cluster
from ttools.verifier.batch.cluster import Cluster, _Host
from ttools.verifier.batch.folder import Executor, verify_folder
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification

OPTIONS = VerifyOptions(shrink=2)
CASE = """\
import triton, triton.language as tl, torch
from neighbour import WRONG

DOMAIN = {"n": (1, 64)}

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def candidate(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y + FACTOR

def reference(x):
    return x * 2

def inputs(n, seed=0):
    return {"x": torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed))}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("WRONG = 1\n")
    (tmp_path / "right.py").write_text(CASE.replace(" + FACTOR", ""))
    (tmp_path / "wrong.py").write_text(CASE.replace("FACTOR", "WRONG"))
    return tmp_path


def verdicts(folder: Path, start: Callable[[], Executor]) -> dict[str, str]:
    verdict_of: dict[str, str] = {}

    def report(name: str, verification: Verification, line: str) -> None:
        assert json.loads(line)["file"] == name
        verdict_of[name] = verification.verdict

    output = folder / "verdicts.jsonl"
    assert verify_folder(folder, start, report, output) == 0
    assert verify_folder(folder, start, report, output) == len(verdict_of), (
        "all files have been verified"
    )
    return verdict_of


@pytest.mark.slow
def test_on_a_ray_cluster_of_this_machine(folder: Path) -> None:
    pytest.importorskip("ray", reason="ttools-verifier[ray] is not installed")
    results = verdicts(folder, lambda: Cluster(2, OPTIONS, folder))
    assert results == {"right.py": "pass", "wrong.py": "fail"}


@pytest.mark.slow
def test_a_host_verifies_and_survives_its_process(folder: Path) -> None:
    host = _Host(asdict(OPTIONS), {"neighbour.py": "WRONG = 1\n"})
    wrong = (folder / "wrong.py").read_text()
    assert host.verify("wrong.py", wrong)["verdict"] == "fail"
    assert host._server is not None
    os.kill(host._server.pid, signal.SIGKILL)
    (note,) = host.verify("wrong.py", wrong)["notes"]
    assert note.startswith("during its verification, the process was killed by SIGKILL")
    assert host.verify("wrong.py", wrong)["verdict"] == "fail"


class LostError(Exception):
    """Represents Ray's error about an actor that has disappeared."""


class FakeRay:
    """Imitates the part of Ray that `Cluster` uses, with actors that disappear.

    Args:
        lost: Number of calls whose actor disappears, by file.
    """

    exceptions = SimpleNamespace(RayActorError=LostError, RayError=Exception)

    def __init__(self, lost: dict[str, int]) -> None:
        self.lost = lost
        self.killed = 0
        self.calls: list[str] = []

    def remote(self, **_: object) -> Callable[[object], SimpleNamespace]:
        return lambda _: SimpleNamespace(remote=lambda *_: self.actor())

    def actor(self) -> SimpleNamespace:
        return SimpleNamespace(verify=SimpleNamespace(remote=lambda name, _: self.call(name)))

    def call(self, name: str) -> tuple[str, int]:
        self.calls.append(name)
        return name, len(self.calls)

    def wait(self, awaited: list[object], num_returns: int) -> tuple[list[object], list[object]]:
        return awaited[-num_returns:], awaited[:-num_returns]

    def get(self, asked: tuple[str, int]) -> dict[str, object]:
        if self.lost.get(asked[0], 0):
            self.lost[asked[0]] -= 1
            raise LostError("no machine\nand a second line")
        return Verification(verdict="pass", failures=(), covered={}).as_dict()

    def kill(self, _: object) -> None:
        self.killed += 1


def test_files_of_lost_machines_are_verified_once_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = FakeRay({"right.py": 1, "wrong.py": 2})
    ended = []
    monkeypatch.setattr(cluster, "connect", lambda *_, **__: (ray, lambda: ended.append(1)))
    results = verdicts(folder, lambda: Cluster(2, OPTIONS, folder))
    assert results == {"right.py": "pass", "wrong.py": "inconclusive"}
    assert (
        "the machine that verified it was lost: no machine"
        in (folder / "verdicts.jsonl").read_text()
    )
    assert sorted(ray.calls) == ["right.py"] * 2 + ["wrong.py"] * 2
    assert (ray.killed, ended) == (2, [1])
