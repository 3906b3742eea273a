"""Measures the compile time of kernels by phase, and their memory, with cold and warm caches.

Run as a program, this file is one process that launches every workload once and prints the phases.
Each repetition starts two such processes: one with empty caches, and one with the caches of the
first. The first compilation of a process also loads and initialises libraries. Therefore a tiny
kernel is compiled first and reported separately.
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

#: Phases in the order of their execution; `other` is the part of `total` that no phase covers.
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
#: Name of the kernel that is compiled first.
FIRST = "tiny_kernel"

# Maps the phases that `cache.get_or_compile` reports to those of PHASES.
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
    """Measures phases by wrapping the functions that execute them.

    Attributes:
        records: One record per launch: `kernel`, `phases` in seconds and `memory` in bytes.
        launched: The launched functions, in the order of `records`.
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
        """Wrap Triton's launch function to record its phases, excluding the run of programs."""

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
        """Return the functions to measure: the owner, the name, and a function that wraps each."""
        from triton.compiler import ASTSource
        from triton.runtime.jit import JITFunction

        from ttools.interpreter.frontend import triton_passes
        from ttools.interpreter.run import kernel_launch, variants
        from ttools.interpreter.runtime import launch

        return [
            (ASTSource, "make_ir", lambda f: self.timed("make_ir", f)),
            (triton_passes, "run_ttir_passes", lambda f: self.timed("ttir passes", f)),
            (variants, "parse_module", lambda f: self.timed("TTIR parse", f)),
            (variants, "get_or_compile", self.compilation),
            (launch, "run", self.run),
            (kernel_launch, "run_launch", self.run),
            (JITFunction, "run", self.launch),
        ]


def collect_garbage() -> None:
    """Collect garbage between kernels, so that no collection happens during a compilation.

    Collecting all objects of torch and Triton takes as long as compiling a kernel. Automatic
    collection would add this time to a random kernel.
    """
    gc.collect()


def child(only: str) -> None:
    """Launch the tiny kernel and every chosen workload once; print the phases as JSON."""
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
    """Return the median phases of every kernel.

    Args:
        only: Names of workloads, as for `workloads.chosen`.
        repeat: Number of processes with cold caches, and of processes with warm caches.

    Returns:
        Under `cold` and `warm`, a list of records: `workload`, `title`, `kernel`, `phases` in
        seconds and `memory` in bytes. In `memory`, `peak` is the additional memory of the process
        for compiling and running, and `arena` is the memory for the kernel's tiles in each thread.
        The first record is that of the tiny kernel.
    """
    cold, warm = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as caches:
            cold.append(_run_child(only, Path(caches)))
            warm.append(_run_child(only, Path(caches)))
    return {"cold": _medians(cold), "warm": _medians(warm)}


def _medians(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    results = []
    for records in zip(*runs, strict=True):
        phases = {
            phase: statistics.median(record["phases"].get(phase, 0.0) for record in records)
            for phase in PHASES
        }
        memory = {
            name: max(record["memory"][name] for record in records) for name in records[0]["memory"]
        }
        results.append({**records[0], "phases": phases, "memory": memory})
    return results


if __name__ == "__main__":
    child(sys.argv[1] if len(sys.argv) > 1 else "")
