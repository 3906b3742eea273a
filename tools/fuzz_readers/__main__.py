"""The command: runs workers, restarts those that die, prints the table and what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tools.fuzz_readers.readers import READERS, Mutator
from tools.fuzz_readers.worker import RIGHTS

#: Seconds for one input, the start of a worker included.
PATIENCE_S = 120.0
_SHOWN = 12


class Tally:
    """What became of the inputs of a reader.

    Attributes:
        outcomes: how many of each.
        defects: number, outcome and what shows it.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.defects: list[tuple[int, str, str]] = []

    def add(self, number: int, outcome: str, shown: str) -> None:
        """Counts an input."""
        self.outcomes[outcome] += 1
        if outcome not in RIGHTS:
            self.defects.append((number, outcome, shown))


def run(name: str, count: int, seed: int, mutator: Mutator = "damage") -> Tally:
    """Gives inputs to a reader, in as many processes as it takes."""
    tally, start = Tally(), 0
    while start < count:
        start = _run_worker((name, mutator), seed, start, count, tally)
    return tally


def _run_worker(words: tuple[str, str], seed: int, start: int, count: int, tally: Tally) -> int:
    """Runs a worker until it ends; returns the number of the next input."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "tools.fuzz_readers.worker", *words]
    with subprocess.Popen(
        [*command, *map(str, (seed, start, count, writing))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
    ) as worker:
        os.close(writing)
        begun, after = start, start
        with os.fdopen(reading, "rb", buffering=0) as pipe, selectors.DefaultSelector() as waiting:
            waiting.register(pipe, selectors.EVENT_READ)
            rest = b""
            while waiting.select(PATIENCE_S):
                told = pipe.read(1 << 16)
                if not told:
                    break
                *lines, rest = (rest + told).split(b"\n")
                for line in lines:
                    begun, *what = json.loads(line)
                    if what:
                        tally.add(begun, *what)
                        after = begun + 1
            else:
                worker.kill()
                tally.add(begun, "hang", f"no end within {PATIENCE_S:.0f} s")
                return begun + 1
    if worker.returncode != 0 or after < count:
        tally.add(begun, "crash", f"the process ended with {worker.returncode}")
        return max(begun, after) + 1 if after <= begun else after
    return after


def main() -> int:
    """Runs the readers that were asked for; the status is 1 if there is a defect."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_readers", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="inputs for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", choices=sorted(READERS))
    parser.add_argument("--mutator", choices=("damage", "structure"), default="damage")
    parser.add_argument("--save", type=Path, help="a folder for the inputs that show defects")
    arguments = parser.parse_args()
    defects = 0
    print("| reader | inputs | refused | accepted | unsupported | defects | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in arguments.reader or READERS:
        start = time.monotonic()
        tally = run(name, arguments.count, arguments.seed, arguments.mutator)
        found = tally.outcomes
        numbers = [f"{found[word]:,}" for word in ("refused", "accepted", "unsupported")]
        cells = [f"{sum(found.values()):,}", *numbers, f"{len(tally.defects):,}"]
        seconds = f"{time.monotonic() - start:.0f}"
        print(f"| {name} | {' | '.join(cells)} | {seconds} |", flush=True)
        defects += len(tally.defects)
        _show(name, tally, arguments)
    return min(defects, 1)


def _show(name: str, tally: Tally, arguments: argparse.Namespace) -> None:
    """Prints each kind of defect once, on standard error."""
    folder: Path | None = arguments.save
    reader = READERS[name]
    kinds: dict[str, list[tuple[int, str, str]]] = {}
    for number, outcome, shown in tally.defects:
        lines = shown.strip().splitlines() or [""]
        place = next((line for line in reversed(lines) if line.startswith('  File "')), "")
        kinds.setdefault(f"{outcome} {place} {lines[-1][:60]}", []).append((number, outcome, shown))
    for same in list(kinds.values())[:_SHOWN]:
        number, outcome, shown = same[0]
        print(f"\n{name} {number}: {outcome} ({len(same)} such)\n{shown}", file=sys.stderr)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name.replace(' ', '_')}-{number}{reader.suffix}"
            path.write_bytes(
                reader.inputs(reader.seeds(), number, arguments.seed, arguments.mutator)
            )


if __name__ == "__main__":
    raise SystemExit(main())
