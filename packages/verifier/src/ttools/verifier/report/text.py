"""Writes the result of a verification as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ttools.core.reports.sizes import ranges_text
from ttools.verifier.result import Failure, Verification

#: Number of reasons in the text; the JSON report contains all of them.
_MOST_REASONS = 3
#: Singular of the kinds of cases.
_ONE = {
    "ordinary sizes": "ordinary size",
    "sequences of calls": "sequence of calls",
    "smallest and largest sizes": "smallest or largest size",
    "views": "view",
    "special values": "special value",
    "sizes about blocks": "size about blocks",
    "unequal special values": "unequal special value",
    "gradients of one argument": "gradient of one argument",
    "configurations": "configuration",
    "launches left out": "launch left out",
    "other orders of programs": "other order of programs",
}


def text_of(found: Verification, name: str) -> str:
    """Return the report of one verification."""
    lines = [f"{name}: {found.verdict}"]
    for failure in found.failures:
        lines += ["", f"  {failure.failure}: {failure.detail}", f"    at {circumstances(failure)}"]
        if failure.test:
            lines.append(f"    test: {failure.test}")
        if failure.issue:
            lines += ["    issue:", "", *(f"      {line}" for line in failure.issue.splitlines())]
    lines.append("")
    counts = [
        f"{count} {_ONE.get(kind, kind) if count == 1 else kind}"
        for kind, count in found.covered.items()
        if isinstance(count, int) and kind != "cases"
    ]
    lines.append(f"  tried {found.covered.get('cases', 0)} cases: {', '.join(counts)}")
    lines += [f"  {line}" for line in _all_sizes(found.covered.get("all sizes", {}))]
    lines += [f"  {line}" for line in _replay(found)]
    lines += [f"  note: {note}" for note in found.notes]
    lines += [f"  not checked: {limit}" for limit in found.not_judged]
    return "\n".join(lines) + "\n"


def _replay(found: Verification) -> Iterator[str]:
    """Describe whether a pass was verified by replay."""
    replay = found.replay
    if found.verdict == "pass" and replay.verified:
        yield (
            f"verified by replay: {replay.cases} calls were repeated without the candidate, also "
            "on inputs that it never saw"
        )
    elif found.verdict == "pass":
        for reason in replay.reasons[:_MOST_REASONS] or ("no call could be repeated",):
            yield f"not verified by replay: {reason}"


def _all_sizes(tried: dict[str, Any]) -> Iterator[str]:
    """Describe the check of accesses at all sizes; choices with equal outcomes are grouped."""
    same: dict[tuple[Any, ...], list[str]] = {}
    for run in tried.get("runs", ()):
        key = run["verdict"], tuple(run["why"]), tuple(run["assumed"])
        label = ", ".join(f"{name}={value}" for name, value in run["choices"].items())
        same.setdefault(key, []).append(label)
    ranges = {name: (low, high) for name, (low, high) in tried.get("sizes", {}).items()}
    shown = [ranges_text(ranges)] if ranges else []
    for (verdict, why, assumed), labels in same.items():
        of = f" ({'; '.join(labels)})" if labels[0] and len(same) > 1 else ""
        yield f"{' '.join(['accesses at all sizes', *shown])}{of}: {verdict}"
        yield from (f"  {reason}" for reason in why[:_MOST_REASONS])
        if len(why) > _MOST_REASONS:
            yield f"  and {len(why) - _MOST_REASONS} more"
        yield from (f"  assumed: {assumption}" for assumption in assumed)


def circumstances(failure: Failure) -> str:
    """Return the inputs of a failure in one line."""
    parts = [f"{name}={value}" for name, value in failure.sizes.items()]
    if failure.dtype:
        parts.append(f"dtype={failure.dtype}")
    parts += [f"{name}={value}" for name, value in failure.choices.items()]
    parts.append(f"seed={failure.seed}")
    text = ", ".join(parts)
    if failure.values != "drawn":
        text += f"; values: {failure.values}"
    for name, kind in failure.values_of.items():
        text += f"; values of {name}: {kind}"
    if failure.shared is not None:
        text += f"; {failure.shared[1]} is {failure.shared[0]}"
    if failure.only_grad:
        text += f"; the gradient of {failure.only_grad} alone"
    for name, view in failure.views.items():
        text += f"; {'all arguments' if name == '*' else name} as a view: {view}"
    if failure.config is not None:
        text += f"; configuration {failure.config}"
    if failure.after:
        count = len(failure.after)
        text += "; after another call" if count == 1 else f"; after {count} other calls"
    return text


def line_of(name: str, found: Verification) -> str:
    """Return the result of one verification in one line."""
    classes = ", ".join(failure.failure for failure in found.failures)
    return f"{name}: {found.verdict}" + (f" ({classes})" if classes else "")
