"""Runs the property tests on new examples: `make explore`.

    python -m tools.explore --seconds 600 --processes 2     # all property tests, for ten minutes
    python -m tools.explore --seed 7 tests/core             # one round with a given seed

Each round has a new seed and runs all tests in a random order. Rounds are repeated until the time
is over or a test fails. For each failure, a command that reproduces the examples is printed, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.exploration import NO_TESTS, PROFILE

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds that the command line requests; return the exit status."""
    options = _parser().parse_args(arguments)
    paths = options.paths or [ROOT / "tests"]
    missing = [path for path in paths if not path.exists()]
    if missing:
        print(f"there is no file or folder {str(missing[0])!r}", file=sys.stderr)
        return 2
    files = sorted(set(_property_tests(paths)))
    if not files:
        print("no file there imports hypothesis: there are no property tests", file=sys.stderr)
        return 2
    until = time.time() + options.seconds
    rounds = 0
    while not rounds or (options.seed is None and time.time() < until):
        seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(31)
        rounds += 1
        print(f"round {rounds}: seed {seed}, {until - time.time():.0f} s left", flush=True)
        status = _run(files, seed, until, options)
        if status not in (0, NO_TESTS):
            return status
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.explore",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; default: all tests")
    parser.add_argument("--seconds", type=float, default=300, help="start no test after this time")
    parser.add_argument("--seed", type=int, help="run one round, with this seed")
    parser.add_argument("--processes", type=int, default=0, help="number of test processes")
    parser.add_argument("--tests", default="", help="only tests whose names match, as pytest's -k")
    parser.add_argument("--slow", action="store_true", help="run tests marked as slow, too")
    return parser


def _property_tests(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that import Hypothesis, so that pytest need not collect all others."""
    for path in paths:
        for file in [path] if path.is_file() else path.rglob("test_*.py"):
            text = file.read_text(encoding="utf-8")
            if "from hypothesis import" in text or "import hypothesis" in text:
                yield file


def _run(files: Sequence[Path], seed: int, until: float, options: argparse.Namespace) -> int:
    """Run pytest once; return its exit status."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "tests.exploration"),
        *("-m", "hypothesis" if options.slow else "hypothesis and not slow"),
        *("-k", options.tests, "-n", str(options.processes)),
        *("--hypothesis-profile", PROFILE, "--hypothesis-seed", str(seed)),
        *("--explore-until", str(until)),
    ]
    return subprocess.run([*command, *map(str, files)], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
