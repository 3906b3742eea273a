"""Runs a script and proves its launches for all sizes: `python -m tools.libraries.sizes_worker`.

`sizes.py` starts a process for each script. The result of each launch is written as a line of JSON
as soon as it is known, so that killing a process loses the result of one launch only.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from tools.libraries.attack import Attack
from ttools.cli.work import run_work, surviving, take_over_from_upstream
from ttools.core.process.script import Target
from ttools.prove.analysis import Analysis
from ttools.prove.contracts import Promise
from ttools.prove.result import Result
from ttools.prove.trace.check import check_launch, has_table, templates_of
from ttools.prove.trace.launches import ScriptTrace, trace_launches
from ttools.prove.trace.template import Template

#: Number of different bounds that are tried for the contents of integer tensors.
_MOST_PROMISES = 2


class OutOfTimeError(KeyboardInterrupt):
    """A script has reached its time limit; its launches are recorded. This also ends pytest."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt the context after the given number of seconds."""

    def stop(_: int, __: FrameType | None) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def launches_of(target: Target, seconds: float) -> tuple[ScriptTrace, str]:
    """Return the launches of a script, and how it ended."""
    take_over_from_upstream("ttools sanitizes")
    begin, status = time.monotonic(), 1
    with (
        surviving("cuda=cpu"),
        trace_launches() as traced,
        suppress(OutOfTimeError),
        at_most(seconds),
    ):
        status = run_work(target, "cuda=cpu", quiet=True, advice=None)
    if time.monotonic() - begin >= seconds:
        return traced, f"stopped after {seconds:g} s"
    return traced, "ended" if status == 0 else f"status {status}"


@dataclass(frozen=True)
class Checked:
    """The result for a launch.

    Attributes:
        template: The launch for all sizes.
        found: Result of the proof.
        promised: Assumptions of the proof about the contents of integer tensors.
        verdict: Verdict in the table.
        low: The smallest size that the proof covers.
    """

    template: Template
    found: Result
    promised: dict[str, Promise]
    verdict: str
    low: int = 1


def check(template: Template, seconds: float) -> Checked:
    """Prove a launch, with assumptions about integer tensors if necessary."""
    if not template.sizes:
        own = Analysis(template.run, {}, seconds).analyse()
        verdict = "single size" if own.verdict == "proved" else own.verdict
        return Checked(template, own, {}, verdict)
    taken, result = check_launch(template, {}, seconds, {})
    if result.verdict != "not proved":
        return Checked(taken, result, {}, result.verdict)
    if any("CompilationError" in reason.reason for reason in result.abstained):
        # Triton treats arguments equal to 1 as constants, for which some kernels do not compile.
        above = {name: (2, max(2, high)) for name, (_, high) in template.ends({}).items()}
        taken, other = check_launch(template, above, seconds, {})
        if other.verdict == "proved":
            other.assumptions.append("all sizes are at least 2")
            return Checked(taken, other, {}, "assumed", low=2)
    for promised in promises(template, result):
        taken, other = check_launch(template, {}, seconds, promised)
        if other.verdict != "proved" and are_apart_only(other):
            promised = {name: (*bounds, "distinct") for name, bounds in promised.items()}
            taken, other = check_launch(template, {}, seconds, promised)
        if other.verdict == "proved":
            return Checked(taken, other, promised, "assumed")
    return Checked(template, result, {}, result.verdict)


def are_apart_only(found: Result) -> bool:
    """Return whether everything is proved except that programs or lanes use different elements."""
    meets = ("two programs", "the lanes")
    return all(d.event.kind in ("race", "overlapping_store") for d in found.defects) and all(
        reason.reason.split(": ")[-1].startswith(meets) or "data" in reason.reason
        for reason in found.abstained
    )


def promises(template: Template, found: Result) -> Iterator[dict[str, Promise]]:
    """Yield assumptions about integer tensors: elements are positions along an axis of a tensor."""
    tables = [n for n in template.launch.tensors if has_table(template.launch, n)]
    targets = {n for a in found.abstained for n in re.findall(r"data.* of `(\w+)`", a.reason)}
    if not tables or not found.abstained:
        return
    bounds: dict[str, bool] = {}
    for name in [n for n in template.layouts if n in targets] or template.layouts:
        for extent in template.layouts[name].shape[:2]:
            if "cdiv" not in str(extent):
                bounds.setdefault(f"{extent!s} - 1", extent.constant is not None)
    for bound in sorted(bounds, key=bounds.__getitem__)[:_MOST_PROMISES]:  # sizes before constants
        yield dict.fromkeys(tables, (0, bound))


def row(checked: Checked) -> dict[str, Any]:
    """Return the result for a launch as plain data."""
    template, result = checked.template, checked.found
    return {
        "kernel": template.launch.kernel,
        "line": template.launch.line,
        "sizes": template.sizes,
        "verdict": checked.verdict,
        "seconds": round(result.seconds, 2),
        "assumptions": result.assumptions,
        "reasons": [
            {"reason": a.reason, "at": f"{a.file}:{a.line}", "sizes": dict(a.sizes)}
            for a in result.abstained
        ],
        "defects": [
            {
                "kind": d.event.kind,
                "at": str(d.event.op.location),
                "sizes": dict(d.sizes),
                "least": d.is_least,
                "program": d.event.program,
                "lane": d.event.lane,
                "element": d.event.element,
                "witness": d.witness,
            }
            for d in result.defects
        ],
    }


def main() -> None:
    """Run one script."""
    parser = argparse.ArgumentParser(prog="python -m tools.libraries.sizes_worker")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--memory", type=int, default=1 << 31)
    parser.add_argument("--attacks", type=int, default=0)
    parser.add_argument("--attack-seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", action="store_true")
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    name, *words = options.words
    kind: Literal["module", "script"] = "module" if options.module else "script"
    trace, ended = launches_of(
        Target(kind=kind, name=name, arguments=tuple(words)), options.timeout
    )
    with options.out.open("a", encoding="utf-8") as out:

        def write(data: Mapping[str, Any]) -> None:
            print(json.dumps(data), file=out, flush=True)

        write({"ended": ended, "left_out": trace.left_out})
        for template in templates_of(trace, {}, options.memory):
            begin = time.process_time()
            checked = check(template, options.seconds)
            data = row(checked)
            data["cpu"] = round(time.process_time() - begin, 2)
            attack = Attack(checked.template, checked.promised, options.seed, checked.low)
            if checked.verdict in ("proved", "assumed") and options.attacks:
                data["attack"] = asdict(attack.run(options.attacks, options.attack_seconds))
            write(data)


if __name__ == "__main__":
    main()
