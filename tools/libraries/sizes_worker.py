"""Runs one script and checks its launches for all sizes: `python -m tools.libraries.sizes_worker`.

A process of its own for each script, started by `sizes.py`. Writes a line of JSON for each launch as
soon as it is known, so that what is stopped loses one launch only.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ttools.cli.work import run_work, surviving, take_over_from_upstream
from ttools.core.process.script import Target
from ttools.sanitizer.sizes.result import Result
from ttools.sanitizer.sizes.script.check import check_launch, general_launches
from ttools.sanitizer.sizes.script.generalise import General
from ttools.sanitizer.sizes.script.seen import Seen, launches_seen


class OutOfTimeError(BaseException):
    """A script has run for long enough; what it launched is known."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stops what runs in it after so many seconds."""

    def stop(_: int, __: FrameType | None) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def launches_of(target: Target, seconds: float) -> tuple[Seen, str]:
    """What a script launches, and how it ended."""
    take_over_from_upstream("ttools sanitizes")
    with surviving("cuda=cpu"), launches_seen() as seen:
        try:
            with at_most(seconds):
                status = run_work(target, "cuda=cpu", quiet=True, advice=None)
        except OutOfTimeError:
            return seen, f"stopped after {seconds:g} s"
    return seen, "ended" if status == 0 else f"status {status}"


def row(general: General, found: Result) -> dict[str, Any]:
    """What is known of a launch, as data."""
    return {
        "kernel": general.launch.kernel,
        "line": general.launch.line,
        "sizes": general.sizes,
        "verdict": found.verdict,
        "seconds": round(found.seconds, 2),
        "assumptions": found.assumptions,
        "reasons": [f"{a.file}:{a.line}: {a.reason} {dict(a.sizes)}" for a in found.abstained],
        "defects": [
            {
                "kind": d.event.kind,
                "at": str(d.event.op.location),
                "sizes": dict(d.sizes),
                "least": d.is_least,
                "program": d.event.program,
                "lane": d.event.lane,
                "element": d.event.element,
            }
            for d in found.defects
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.libraries.sizes_worker")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--elements", type=int, default=(1 << 31) - 1)
    parser.add_argument("--module", action="store_true")
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    name, *words = options.words
    kind = "module" if options.module else "script"
    seen, ended = launches_of(Target(kind=kind, name=name, arguments=tuple(words)), options.timeout)
    with options.out.open("a", encoding="utf-8") as out:

        def write(data: Mapping[str, Any]) -> None:
            print(json.dumps(data), file=out, flush=True)

        write({"ended": ended, "left_out": seen.left_out})
        for general in general_launches(seen, {}, options.elements):
            begin = time.monotonic()
            found = check_launch(general, {}, options.seconds, {})
            write(row(general, found) | {"wall": round(time.monotonic() - begin, 2)})


if __name__ == "__main__":
    sys.exit(main())
