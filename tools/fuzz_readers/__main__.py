"""The command line: it runs workers, replaces those that die, and prints table and defects."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from tools.fuzz_readers.readers import READERS, Mutator
from tools.fuzz_readers.worker import RIGHTS
from tools.harness import Worker, run_cases

#: Seconds for one input, the start of a worker included.
PATIENCE_S = 120.0
_SHOWN = 12


class Tally:
    """The outcomes of a reader.

    Attributes:
        outcomes: Number of inputs by outcome.
        defects: For each defect, the index of the input, the outcome, and a text that shows it.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.defects: list[tuple[int, str, str]] = []

    def add(self, number: int, outcome: str, shown: str) -> None:
        """Count an input."""
        self.outcomes[outcome] += 1
        if outcome not in RIGHTS:
            self.defects.append((number, outcome, shown))


def run(name: str, count: int, seed: int, mutator: Mutator = "damage") -> Tally:
    """Pass inputs to a reader; processes that die are replaced."""
    tally = Tally()
    command = [sys.executable, "-m", "tools.fuzz_readers.worker", name, mutator, str(seed)]

    def start() -> Worker:
        return Worker(command, environment=os.environ)

    def read(worker: Worker, number: int) -> None:
        answer = worker.ask(number, PATIENCE_S)
        if answer is not None:
            tally.add(number, *answer)
        else:
            tally.add(number, "hang" if worker.expired else "crash", worker.why())

    run_cases(range(count), 1, start, read)
    return tally


def main() -> int:
    """Run the chosen readers; return 1 if there is a defect."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_readers", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="inputs for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", choices=sorted(READERS))
    parser.add_argument("--mutator", choices=("damage", "structure"), default="damage")
    parser.add_argument("--save", type=Path, help="folder for inputs that show defects")
    arguments = parser.parse_args()
    defects = 0
    print("| reader | inputs | refused | accepted | unsupported | defects | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in arguments.reader or READERS:
        start = time.monotonic()
        tally = run(name, arguments.count, arguments.seed, arguments.mutator)
        outcomes = tally.outcomes
        numbers = [f"{outcomes[word]:,}" for word in ("refused", "accepted", "unsupported")]
        cells = [f"{sum(outcomes.values()):,}", *numbers, f"{len(tally.defects):,}"]
        seconds = f"{time.monotonic() - start:.0f}"
        print(f"| {name} | {' | '.join(cells)} | {seconds} |", flush=True)
        defects += len(tally.defects)
        _show(name, tally, arguments)
    return min(defects, 1)


def _show(name: str, tally: Tally, arguments: argparse.Namespace) -> None:
    """Print each kind of defect once, on standard error."""
    folder: Path | None = arguments.save
    reader = READERS[name]
    kinds: dict[str, list[tuple[int, str, str]]] = {}
    for number, outcome, shown in tally.defects:
        lines = shown.strip().splitlines() or [""]
        place = next((line for line in reversed(lines) if line.startswith('  File "')), "")
        kinds.setdefault(f"{outcome} {place} {lines[-1][:60]}", []).append((number, outcome, shown))
    for similar in list(kinds.values())[:_SHOWN]:
        number, outcome, shown = similar[0]
        print(f"\n{name} {number}: {outcome} ({len(similar)} such)\n{shown}", file=sys.stderr)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name.replace(' ', '_')}-{number}{reader.suffix}"
            path.write_bytes(
                reader.inputs(reader.seeds(), number, arguments.seed, arguments.mutator)
            )


if __name__ == "__main__":
    raise SystemExit(main())
