"""How the time of the checks grows with the size of launches in which many programs meet.

    python benchmarks/growth.py                       # all shapes
    python benchmarks/growth.py chain_of_flags --sizes 1000,2000,4000,8000

A launch is timed when the same one has been made before, so that nothing is compiled meanwhile. The
table shows the CPU time of the launch under the check less that under memcheck, and the exponent of
its growth: 1 where it is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Times below this say little about growth.
_LEAST_SECONDS = 0.05


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of a line through the logarithms, least squares."""
    x, y = ([math.log(each) for each in values] for values in (sizes, seconds))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def measure(shape: str, sizes: Sequence[int], check: str) -> None:
    """Times one shape at all sizes, and prints a line of JSON for each."""
    from workloads.growing_launches import SHAPES

    from ttools.sanitizer import sanitize

    def run(size: int, checks: str | None) -> tuple[float, list[str]]:
        launch = SHAPES[shape](size)
        with sanitize(checks=checks or "memcheck") as report:
            before = time.process_time()
            launch()
            took = time.process_time() - before
        return took, [finding.kind for finding in report.findings]

    for size in sizes:
        # Kernels may be compiled for each size; what is compiled is not timed.
        run(size, check)
        plain, _ = run(size, None)
        checked, kinds = run(size, check)
        row = {"size": size, "seconds": max(checked - plain, 0.0), "kinds": sorted(set(kinds))}
        print(json.dumps(row), flush=True)


def main() -> None:
    """Measures each shape in a process of its own, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", help="names of shapes; all if none")
    parser.add_argument("--sizes", default="2048,4096,8192,16384", help="ascending numbers")
    parser.add_argument("--check", default="racecheck", help="what is timed beside memcheck")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one shape")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.measure:
        measure(options.shapes[0], sizes, options.check)
        return
    from workloads.growing_launches import SHAPES

    unknown = [name for name in options.shapes if name not in SHAPES]
    if unknown:
        parser.error(f"no shape {unknown[0]!r}; there are: {', '.join(SHAPES)}")
    print(f"{'shape':28}{'growth':>8}  seconds at {', '.join(map(str, sizes))}; findings")
    for name in options.shapes or SHAPES:
        rows = _ask(name, options)
        known = [row for row in rows if row["seconds"] >= _LEAST_SECONDS]
        growth = "-"
        if len(known) > 1:
            growth = (
                f"{exponent(*zip(*[(r['size'], r['seconds']) for r in known], strict=True)):.2f}"
            )
        seconds = "  ".join(f"{row['seconds']:.2f}" for row in rows)
        late = "" if len(rows) == len(sizes) else "  (stopped)"
        kinds = ", ".join(rows[-1]["kinds"]) if rows else ""
        print(f"{name:28}{growth:>8}  {seconds}{late}; {kinds or 'none'}", flush=True)


def _ask(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, name, "--measure"]
    command += ["--sizes", options.sizes, "--check", options.check]
    here = Path(__file__).parent
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here)
    try:
        text, _ = process.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


if __name__ == "__main__":
    main()
