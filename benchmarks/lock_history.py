"""Judges `ttools inspect --lock` on the history of Liger-Kernel: are its slowdowns flagged?

    git clone https://github.com/linkedin/Liger-Kernel
    python benchmarks/lock_history.py checkout Liger-Kernel FOLDER  # its versions, by operator
    python benchmarks/lock_history.py time FOLDER times.json        # on an NVIDIA GPU
    python benchmarks/lock_history.py lock FOLDER                   # anywhere; goes on where it was
    python benchmarks/lock_history.py judge FOLDER benchmarks/points/lock_history.json

Each commit that changes an operator is compared with the one before, kernel by kernel, and both
ways round: what one commit makes faster, its reversal makes slower. A slowdown takes 5% more time,
none takes less than 2% more, and what lies between is not counted. Versions whose figures in the
lock are all equal are one kernel, of which the median time counts. Limits were chosen by one half
of the operators; what the other half gives is the result. `judge` asks for the Triton that wrote
the locks.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import triton
from torch.profiler import ProfilerActivity, profile
from workloads import liger_operators

from ttools.core.compilation.lock import LIMITS as DEFAULTS
from ttools.core.compilation.lock import PROJECTED, SCHEMA, Entry, Lock, read_lock
from ttools.core.compilation.lock_check import Found, compare

SLOWER, EQUAL = 1.05, 1.02
LIMITS = (0.01, 0.015, 0.02, 0.03, 0.05)
#: By the number of slowdowns that were measured, operators were dealt out: the first, fourth,
#: fifth, eighth and so on are here.
CHOSEN_BY = frozenset(
    {
        *("attn_res", "jsd", "kl_div", "layer_norm", "llama4_rope", "modulated_rms_norm"),
        *("rms_norm", "sparsemax", "swiglu"),
    }
)
_OPS = "src/liger_kernel/ops"
_VERSIONS = "versions.json"
#: Microseconds of each kernel, by operator, case and commit.
Times = Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]


def checkout(repository: Path, folder: Path) -> None:
    """Writes the files that each version of each operator needs, and which versions there are."""
    folder.mkdir(parents=True)
    versions: dict[str, list[str]] = {}
    for name in sorted(liger_operators.OPERATORS):
        path, before = f"{_OPS}/{name}.py", ""
        for commit in _git(repository, "log", "--reverse", "--format=%h", "--", path).split():
            source = _git(repository, "show", f"{commit}:{path}")
            code = _code(source)
            if code and code != before:
                versions.setdefault(name, []).append(commit)
                _write(repository, commit, name, folder / commit / "liger_kernel")
            before = code
    (folder / _VERSIONS).write_text(json.dumps(versions, indent=1))


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def _code(source: str) -> str:
    """What a file says apart from comments and documentation."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return ast.dump(tree) if tree.body else ""


def _write(repository: Path, commit: str, name: str, package: Path) -> None:
    (package / "ops").mkdir(parents=True, exist_ok=True)
    for part in ("", "ops/"):
        (package / part / "__init__.py").write_text("")
    for part in ("utils.py", "ops/utils.py", f"ops/{name}.py"):
        if text := _git(repository, "show", f"{commit}:src/liger_kernel/{part}"):
            (package / part).write_text(text)


def time(folder: Path, output: Path, rounds: int, sets: int) -> None:
    """Times all versions of an operator in turns, from tensors that are made anew for each set."""
    liger_operators.tune_nothing()
    found: dict[str, list[Any]] = {}
    for name, commits in _versions(folder).items():
        for case in range(len(liger_operators.OPERATORS[name].cases)):
            samples: dict[str, dict[str, list[float]]] = {}
            for _ in range(sets):
                runs = dict(_runs(folder, name, commits, case))
                _time_in_turns(runs, rounds, samples)
            times = {
                commit: {k: round(statistics.median(each) / 1e3, 2) for k, each in kernels.items()}
                for commit, kernels in samples.items()
            }
            found.setdefault(name, []).append(times)
            print(name, case, len(times), flush=True)
    document = {
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "date": str(datetime.date.today()),
        "times": found,
    }
    output.write_text(json.dumps(document, indent=1))


def _runs(folder: Path, name: str, commits: Sequence[str], case: int) -> Iterator[tuple[str, Any]]:
    for commit in commits:
        try:
            run = liger_operators.operation(folder / commit, name, case, "cuda")
            run()
            run()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a version that this Triton or torch refuses
            print(f"{name} {commit} {case}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        else:
            yield commit, run


def _time_in_turns(
    runs: Mapping[str, Any], rounds: int, samples: dict[str, dict[str, list[float]]]
) -> None:
    """Adds nanoseconds of each of Triton's kernels, as the GPU's own clock has them."""
    cuda: Any = torch.cuda
    order = [c for n in range(rounds) for c in random.Random(n).sample(list(runs), len(runs))]
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for commit in order:
            cuda._sleep(1)  # its kernel begins each run's in the trace
            runs[commit]()
        torch.cuda.synchronize()
    events = [e for e in prof.profiler.kineto_results.events() if e.duration_ns() > 0]
    on_device = [e for e in events if e.device_type().name == "CUDA"]
    sums: list[dict[str, float]] = []
    for event in sorted(on_device, key=lambda event: event.start_ns()):
        name = event.name()
        if "spin_kernel" in name:
            sums.append({})
        elif sums and re.fullmatch(r"\w+", name):  # torch's have types in their names
            sums[-1][name] = sums[-1].get(name, 0.0) + event.duration_ns()
    for commit, own in zip(order, sums, strict=True):
        for kernel, taken in own.items():
            samples.setdefault(commit, {}).setdefault(kernel, []).append(taken)


def lock(folder: Path, target: str) -> None:
    """Writes a lock of each version, by the command itself."""
    for name, commits in _versions(folder).items():
        for case in range(len(liger_operators.OPERATORS[name].cases)):
            for commit in commits:
                path = _lock_of(folder, name, commit, case)
                if path.exists():
                    continue
                words = [liger_operators.__file__, str(folder / commit), name, str(case)]
                options = ["--target", target, "--lock", str(path)]
                command = [sys.executable, "-m", "ttools_entry", "inspect", *options, *words]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(f"{name} {commit} {case}: {done.stderr[-300:]}", file=sys.stderr)


def _lock_of(folder: Path, name: str, commit: str, case: int) -> Path:
    return folder / f"{name}.{commit}.{case}.lock"


def _versions(folder: Path) -> dict[str, list[str]]:
    return dict(json.loads((folder / _VERSIONS).read_text()))


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel before and after a commit, or the other way round.

    Attributes:
        operator: of which it is.
        commits: before, after.
        kernel: its name; all that the operator has where names changed.
        before: entries of its lock.
        now: those after.
        ratio: of the measured times.
    """

    operator: str
    commits: tuple[str, str]
    kernel: str
    before: Sequence[Entry]
    now: Sequence[Entry]
    ratio: float

    def is_flagged(self, limits: Mapping[str, float]) -> bool:
        lock = Lock(SCHEMA, dict(limits), list(self.before))
        return bool(compare(lock, [Found(entry=entry) for entry in self.now]).regressions)


def changes(folder: Path, times: Times) -> Iterator[Change]:
    """What commits change, both ways round, and those that leave a kernel as it was."""
    for name, commits in _versions(folder).items():
        for case, timed in enumerate(times.get(name, ())):
            locks = {c: _entries(_lock_of(folder, name, c, case)) for c in commits if c in timed}
            known = [commit for commit in commits if locks.get(commit)]
            pooled: dict[str, list[float]] = {}
            for commit in known:
                for kernel, entries in locks[commit].items():
                    own = timed[commit].get(kernel)
                    if own is not None:
                        pooled.setdefault(_identity(kernel, entries), []).append(own)
            for pair in pairwise(known):
                for both in (pair, pair[::-1]):
                    yield from _changes(name, both, [locks[c] for c in both], pooled)


def _changes(
    name: str,
    commits: tuple[str, str],
    locks: Sequence[Mapping[str, Sequence[Entry]]],
    pooled: Mapping[str, Sequence[float]],
) -> Iterator[Change]:
    before, now = locks
    groups = [(k,) for k in now] if before.keys() == now.keys() else [None]
    for group in groups:
        sides = [{k: side[k] for k in group or side} for side in locks]
        taken = [
            sum(statistics.median(pooled[_identity(k, e)]) for k, e in side.items())
            for side in sides
        ]
        yield Change(
            operator=name,
            commits=commits,
            kernel=group[0] if group else ", ".join(now),
            before=[each for own in sides[0].values() for each in own],
            now=[each for own in sides[1].values() for each in own],
            ratio=taken[1] / taken[0],
        )


def _entries(path: Path) -> dict[str, list[Entry]]:
    """The entries of a lock by kernel; none where the version could not be locked."""
    found: dict[str, list[Entry]] = {}
    for entry in read_lock(path).kernels if path.exists() else ():
        found.setdefault(entry.kernel, []).append(entry)
    return found


def _identity(kernel: str, entries: Sequence[Entry]) -> str:
    return kernel + str(sorted(str(sorted(each.figures.items())) for each in entries))


def judge(folder: Path, path: Path) -> None:
    data = json.loads(path.read_text())
    found = list(changes(folder, data["times"]))
    static = {name: limit for name, limit in DEFAULTS.items() if name != PROJECTED}
    for title, is_chosen in (("to choose by", True), ("held out", False)):
        own = [each for each in found if (each.operator in CHOSEN_BY) == is_chosen]
        commits = {(c.operator, frozenset(c.commits)) for c in own}
        changed = {(c.operator, frozenset(c.commits)) for c in own if _differs(c)}
        print(f"{title}: {', '.join(sorted({each.operator for each in own}))}")
        print(f"  {len(commits)} commits, of which {len(changed)} change what is compiled")
        print("  without projected times:", _score(own, static))
        for limit in LIMITS:
            print(f"  projected time +{limit:.1%}:", _score(own, {**static, PROJECTED: limit}))
    for each in found:
        flagged = each.is_flagged(DEFAULTS)
        if (each.ratio >= SLOWER and not flagged) or (each.ratio < EQUAL and flagged):
            what = "missed" if not flagged else "false"
            print(what, each.operator, *each.commits, each.kernel, f"{each.ratio:.3f}")


def _score(found: Sequence[Change], limits: Mapping[str, float]) -> str:
    slow = [each.is_flagged(limits) for each in found if each.ratio >= SLOWER]
    rest = [each for each in found if each.ratio < EQUAL]
    changed = [each.is_flagged(limits) for each in rest if _differs(each)]
    return (
        f"{sum(slow)} of {len(slow)} slowdowns flagged ({sum(slow) / max(1, len(slow)):.0%}), "
        f"{sum(changed)} of {len(changed)} others ({sum(changed) / max(1, len(changed)):.1%}), and "
        f"{sum(each.is_flagged(limits) for each in rest if not _differs(each))} of "
        f"{len(rest) - len(changed)} left as they were"
    )


def _differs(change: Change) -> bool:
    return _identity("", change.before) != _identity("", change.now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("checkout", "time", "lock", "judge"))
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sets", type=int, default=4)
    parser.add_argument("--target", default="sm_90")
    arguments = parser.parse_args()
    folder = arguments.paths[0]
    if arguments.what == "checkout":
        checkout(folder, arguments.paths[1])
    elif arguments.what == "time":
        time(folder, arguments.paths[1], arguments.rounds, arguments.sets)
    elif arguments.what == "lock":
        lock(folder, arguments.target)
    else:
        judge(folder, arguments.paths[1])


if __name__ == "__main__":
    main()
