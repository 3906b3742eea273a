"""How long kernels take to compile, by phase, and their memory: cold, and warm from disk.

Run as a program it is one process that launches every workload once and prints its phases; each
repetition is such a process, cold ones with empty caches, warm ones with those of a cold one. The
first compilation of a process also loads and initialises libraries, so a tiny kernel goes first
and is reported apart.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peak_memory import forget_peak_memory, peak_memory
from sides import HERE, cache_variables, environment

#: In the order in which they happen; `other` is the rest of `total`.
PHASES = (
    "make_ir",
    "ttir passes",
    "TTIR parse",
    "emit",
    "LLVM parse",
    "optimise",
    "codegen",
    "load",
    "cache",
    "other",
    "total",
)
#: Name of the kernel that goes first.
FIRST = "tiny_kernel"

# Names of the phases that `cache.get_or_compile` reports.
_OF_COMPILATION = {
    "emit": "emit",
    "parse": "LLVM parse",
    "optimise": "optimise",
    "codegen": "codegen",
    "load": "load",
    "lookup": "cache",
    "store": "cache",
}


class Recorder:
    """Times phases by wrapping the functions that do them.

    Attributes:
        records: of each launch `kernel`, `phases` in seconds and `memory` in bytes.
        launched: the function of each.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.launched: list[Any] = []
        self._phases: dict[str, float] = {}
        self._run_s = 0.0
        self._arena_bytes = 0

    def add(self, phase: str, seconds: float) -> None:
        self._phases[phase] = self._phases.get(phase, 0.0) + seconds

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.add(phase, time.perf_counter() - start)

        return wrapper

    def compilation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            for name, seconds in result.phases.items():
                self.add(_OF_COMPILATION[name], seconds)
            return result

        return wrapper

    def run(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self._arena_bytes = kernel.emitted.arena_bytes
            start = time.perf_counter()
            try:
                return function(kernel, *args, **kwargs)
            finally:
                self._run_s += time.perf_counter() - start

        return wrapper

    def launch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A launch is all phases and the run of the programs, which does not count."""

        def wrapper(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self._phases, self._run_s = {}, 0.0
            before = forget_peak_memory()
            start = time.perf_counter()
            result = function(kernel, *args, **kwargs)
            total = time.perf_counter() - start - self._run_s
            other = total - sum(self._phases.values())
            phases = {**self._phases, "other": other, "total": total}
            memory = {"peak": peak_memory() - before, "arena": self._arena_bytes}
            self.launched.append(kernel)
            self.records.append({"kernel": kernel.fn.__name__, "phases": phases, "memory": memory})
            return result

        return wrapper

    def install(self) -> None:
        for owner, name, wrap in self.wraps():
            setattr(owner, name, wrap(getattr(owner, name)))

    def wraps(self) -> list[tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]]:
        """What is timed: where it is found, and what takes its place."""
        from triton.compiler import ASTSource
        from triton.runtime.jit import JITFunction

        from ttools.interpreter.frontend import front
        from ttools.interpreter.run import kernel_launch, variants
        from ttools.interpreter.runtime import launch

        return [
            (ASTSource, "make_ir", lambda f: self.timed("make_ir", f)),
            (front, "run_ttir_passes", lambda f: self.timed("ttir passes", f)),
            (variants, "parse_module", lambda f: self.timed("TTIR parse", f)),
            (variants, "get_or_compile", self.compilation),
            (launch, "run", self.run),
            (kernel_launch, "run_launch", self.run),
            (JITFunction, "run", self.launch),
        ]


def collect_garbage() -> None:
    """Collects garbage between kernels, and so in none of them.

    Collecting all of torch's and Triton's objects takes as long as compiling a kernel: which one it
    would fall into is chance.
    """
    gc.collect()


def child(only: str) -> None:
    """Launches the tiny kernel and every chosen workload once, and prints the phases as JSON."""
    import kernels
    import torch
    from workloads.rows import chosen

    torch.set_num_threads(1)
    recorder = Recorder()
    recorder.install()
    gc.disable()
    x = torch.ones(16)
    kernels.tiny_kernel[1,](x, torch.empty(16), 16, BLOCK=16)
    results = [{"workload": "", "title": "", **recorder.records.pop()}]
    for workload in chosen(only):
        call = workload.triton_call(*workload.make_inputs("ours"))
        collect_garbage()
        call()
        for record in recorder.records:
            results.append({"workload": workload.name, "title": workload.title, **record})
        recorder.records.clear()
    print(json.dumps(results))


def _run_child(only: str, caches: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(HERE / "compile_time.py"), only],
        env=environment(cache_variables(caches)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def measure_compilation(only: str, repeat: int) -> dict[str, list[dict[str, Any]]]:
    """Median phases of every kernel.

    Args:
        only: which workloads, as `workloads.chosen` takes it.
        repeat: processes, each for cold and for warm.

    Returns:
        Under `cold` and `warm`, a list of `workload`, `title`, `kernel`, `phases` in seconds and
        `memory` in bytes: `peak` of what the process needed more than before, for compiling and
        running, and the `arena` that each thread has for the kernel's tiles.
        The first element is the tiny kernel that goes first.
    """
    cold, warm = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as caches:
            cold.append(_run_child(only, Path(caches)))
            warm.append(_run_child(only, Path(caches)))
    return {"cold": _medians(cold), "warm": _medians(warm)}


def _medians(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    results = []
    for same in zip(*runs, strict=True):
        phases = {
            phase: statistics.median(record["phases"].get(phase, 0.0) for record in same)
            for phase in PHASES
        }
        memory = {
            name: max(record["memory"][name] for record in same) for name in same[0]["memory"]
        }
        results.append({**same[0], "phases": phases, "memory": memory})
    return results


if __name__ == "__main__":
    child(sys.argv[1] if len(sys.argv) > 1 else "")
