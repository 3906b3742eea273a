"""Fault injection for processes: each fault is tried many times, and violations are counted.

`python -m tools.process_faults [--count N] [--seed S] [FAULT…]` kills a random process of `tune`,
`profile` and `sanitize` at random moments, and launches many kernels many times in one process. It
also runs commands with little memory, a home directory that is not writable, a deleted working
directory, paths that are not valid text, and two processes that share a store and a cache. For each
fault it prints the number of trials and the number of violations.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

SCRIPT = """\
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"B": 1 << n}) for n in range(5, 11)], key=["n"])
@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

for n in (1000, 3000, 5000):
    x, y, o = torch.rand(n), torch.rand(n), torch.empty(n)
    add[lambda meta: (triton.cdiv(n, meta["B"]),)](x, y, o, n)
    assert torch.equal(o, x + y)
"""
MANY = """\
import gc, importlib.util, pathlib, resource, sys, tempfile, torch, triton, triton.language as tl
from ttools.interpreter import interpret

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

kernels, launches, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
x = torch.zeros(64)
with interpret():
    for n in range(kernels):
        path = folder / f"many{n}.py"
        path.write_text(
            "import triton, triton.language as tl\\n"
            "@triton.jit\\n"
            f"def kernel{n}(x):\\n"
            f"    i = tl.arange(0, 64)\\n"
            f"    tl.store(x + i, tl.load(x + i) * {n % 7} + {n})\\n"
        )
        spec = importlib.util.spec_from_file_location(f"many{n}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, f"kernel{n}")[1,](x)
        if n in (kernels // 10, kernels // 2, kernels - 1):
            gc.collect()
            print("kernels", n + 1, resident(), flush=True)
    kernel = getattr(module, f"kernel{n}")
    for n in range(launches):
        kernel[1,](x)
        if n in (launches // 10, launches // 2, launches - 1):
            gc.collect()
            print("launches", n + 1, resident(), flush=True)
"""
_WORDS = {
    "tune": ("tune", "--store", "store.sqlite", "--workers", "2"),
    "profile": ("profile", "--format", "json", "--output", "profile.json"),
    "sanitize": ("sanitize", "--format", "json", "--output", "report.json"),
}
_MARK = "TTOOLS_FAULT_RUN"
_PATIENCE_S = 300
_LONGEST_RUN_S = 9.0


class Trials:
    """Number of trials of a fault, and messages for violations."""

    def __init__(self) -> None:
        self.tried = 0
        self.wrong: list[str] = []

    def require(self, right: bool, what: str) -> None:
        """Record the message if the condition is false."""
        if not right:
            self.wrong.append(what)


Fault = Callable[[Path, Random, int, Trials], None]


def _environment(folder: Path, **more: str) -> dict[str, str]:
    own = {"TTOOLS_CACHE_DIR": folder / "cache", "TRITON_CACHE_DIR": folder / "triton"}
    return {**os.environ, **{name: str(path) for name, path in own.items()}, **more}


def _ttools(
    folder: Path, *words: str, limit: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words],
        cwd=folder,
        env=_environment(folder, **more),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE_S,
        check=False,
        preexec_fn=bound,
    )


def _processes(mark: str) -> list[int]:
    """Return the running processes whose environment contains a mark."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                marked = f"{_MARK}={mark}\0".encode() in (entry / "environ").read_bytes() + b"\0"
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if marked and state != "Z":
                    pids.append(int(entry.name))
    return pids


def _trials_in(folder: Path) -> int:
    """Return the number of trials in the tuning store; 0 if there is no store."""
    if not (folder / "store.sqlite").exists():
        return 0
    from ttools.core.errors import UsageError
    from ttools.tuner.store.store import TuningStore

    try:
        store = TuningStore(folder / "store.sqlite", create=False)
    except UsageError as error:
        if "is empty" in str(error):
            return 0
        raise
    try:
        return sum(len(entry.trials) + len(entry.earlier) for entry in store.entries())
    finally:
        store.close()


def _kill(command: str) -> Fault:
    def fault(folder: Path, random: Random, count: int, trials: Trials) -> None:
        (folder / "script.py").write_text(SCRIPT)
        for number in range(count):
            _kill_once(folder, command, random, f"{command}-{number}-{os.getpid()}", trials)
        done = _ttools(folder, *_WORDS[command], "script.py")
        trials.require(done.returncode == 0, f"afterwards: {done.returncode}: {done.stderr[-500:]}")

    return fault


def _kill_once(folder: Path, command: str, random: Random, mark: str, trials: Trials) -> None:
    trials.tried += 1
    before = _trials_in(folder)
    if command == "tune" and before >= 18:
        (folder / "store.sqlite").unlink()
        shutil.rmtree(folder / "cache", ignore_errors=True)
        before = 0
    with subprocess.Popen(
        [sys.executable, "-m", "ttools_entry", *_WORDS[command], "script.py"],
        cwd=folder,
        env=_environment(folder, **{_MARK: mark}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as run:
        time.sleep(random.uniform(0.1, _LONGEST_RUN_S))
        alive = _processes(mark)
        if alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(alive), signal.SIGKILL)
        try:
            _, errors = run.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            run.kill()
            _, errors = run.communicate()
            trials.require(False, f"{mark}: the run hangs after one of its processes was killed")
    trials.require(b"Traceback" not in errors, f"{mark}: {errors.decode(errors='replace')[-800:]}")
    deadline = time.monotonic() + 10
    while (left := _processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    trials.require(not left, f"{mark}: {len(left)} processes are left")
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        trials.require(_trials_in(folder) >= before, f"{mark}: trials are lost")
    except Exception as error:  # noqa: BLE001 - any exception is a violation to report
        trials.require(False, f"{mark}: the store cannot be read: {error!r}")


def _many(folder: Path, random: Random, count: int, trials: Trials) -> None:
    """Launch 20 * `count` kernels, and one of them 10,000 * `count` times; memory must not grow."""
    (folder / "many.py").write_text(MANY)
    (folder / "kernels").mkdir()
    kernels, launches = 20 * count, 10_000 * count
    words = [sys.executable, "many.py", str(kernels), str(launches), "kernels"]
    done = subprocess.run(
        words, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False
    )
    trials.tried = kernels + launches
    print(done.stdout, flush=True)
    trials.require(done.returncode == 0, done.stderr[-500:])
    sizes = [int(line.split()[2]) for line in done.stdout.splitlines() if line[0] == "l"]
    flat = len(sizes) == 3 and sizes[2] - sizes[0] <= 8
    trials.require(flat, f"memory grows while one kernel is launched: {sizes} MiB")


def _memory(folder: Path, random: Random, count: int, trials: Trials) -> None:
    (folder / "script.py").write_text(SCRIPT)
    for _ in range(count):
        trials.tried += 1
        limit = int(random.uniform(0.2, 8) * (1 << 30))
        done = _ttools(folder, random.choice(("interpret", "sanitize")), "script.py", limit=limit)
        explained = done.returncode == 0 or done.stderr.strip()
        trials.require(bool(explained), f"{limit >> 20} MiB: {done.returncode} without a message")


def _surroundings(folder: Path, random: Random, count: int, trials: Trials) -> None:
    """Run without a writable home, in a deleted folder, and with paths that are not valid text."""
    (folder / "script.py").write_text(SCRIPT)
    script = str(folder / "script.py")
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xe9"))
    odd.mkdir()
    outputs: Sequence[tuple[str, ...]] = (
        ("record", "--output", str(odd / "r.tt")),
        ("tune", "--store", str(odd / "s.sqlite")),
        ("profile", "--format", "json", "--output", str(odd / "p.json")),
        ("sanitize", "--format", "json", "--output", str(odd / "s.json")),
        ("interpret", "--engine", "native"),
    )
    homeless: dict[str, str] = {
        "HOME": "/proc/1/none",
        "TTOOLS_CACHE_DIR": "",
        "TRITON_CACHE_DIR": "",
    }
    for words in outputs:
        for more in (dict[str, str](), homeless):
            trials.tried += 1
            done = _ttools(folder, *words, script, limit=None, **more)
            trials.require(done.returncode == 0, f"{words[0]} {more}: {done.stderr[-500:]}")
    for words in (("interpret",), ("tune", "show"), ("doctor",)):
        trials.tried += 1
        gone = Path(tempfile.mkdtemp(dir=folder))
        command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable]
        done = subprocess.run(
            [*command, "-m", "ttools_entry", *words, script],
            cwd=gone,
            env=_environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        sentence = done.returncode == 2 and "working folder was deleted" in done.stderr
        trials.require(sentence, f"deleted folder: {words}: {done.returncode} {done.stderr[-300:]}")


def _together(folder: Path, random: Random, count: int, trials: Trials) -> None:
    """Run two processes that share a tuning store and a cache."""
    (folder / "script.py").write_text(SCRIPT)
    for number in range(count):
        trials.tried += 1
        for path in ("cache", "triton"):
            shutil.rmtree(folder / path, ignore_errors=True)
        store = f"both{number}.sqlite"
        words = [sys.executable, "-m", "ttools_entry", "tune", "--store", store, "script.py"]
        pair = [
            subprocess.Popen(
                words,
                cwd=folder,
                env=_environment(folder),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for process in pair:
            _, errors = process.communicate(timeout=_PATIENCE_S)
            trials.require(process.returncode == 0, errors.decode(errors="replace")[-500:])
        shown = _ttools(folder, "tune", "show", store)
        trials.require(shown.returncode == 0, shown.stderr[-500:])


FAULTS: dict[str, Fault] = {
    "kill-tune": _kill("tune"),
    "kill-profile": _kill("profile"),
    "kill-sanitize": _kill("sanitize"),
    "many": _many,
    "memory": _memory,
    "surroundings": _surroundings,
    "together": _together,
}


def main() -> int:
    """Try the chosen faults; return 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tools.process_faults", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"one of {', '.join(FAULTS)}")
    parser.add_argument("--count", type=int, default=100, help="number of trials of each fault")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.faults or FAULTS:
        trials, start = Trials(), time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            random = Random(f"{name} {arguments.seed}")
            FAULTS[name](Path(folder), random, arguments.count, trials)
        seconds = f"{time.monotonic() - start:.0f}"
        print(f"| {name} | {trials.tried:,} | {len(trials.wrong):,} | {seconds} |", flush=True)
        for what in dict.fromkeys(trials.wrong):
            print(f"{name}: {what}", file=sys.stderr)
        wrong += len(trials.wrong)
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
