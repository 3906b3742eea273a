"""Writes the result of a verification as text for terminals with 80 columns.

By default, a report has at most 40 lines: first the verdict, then the failures, and then what was
tried. A failure that does not fit is shortened to one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttools.core.location import location_of_line
from ttools.core.reports.cases import Statement
from ttools.core.reports.numbers import rounded_percent
from ttools.core.reports.report import counted
from ttools.core.reports.sizes import ranges_text
from ttools.core.reports.text import location_text
from ttools.core.reports.wrapping import WIDTH, shortened, wrapped
from ttools.verifier.cases.tensors import VIEW_TEXTS
from ttools.verifier.cases.values import kind_of
from ttools.verifier.result import CLAIMED, Failure, Verification

#: Maximum number of lines of a report that is not verbose, and of the part of it after the
#: failures.
_MOST_LINES, _MOST_LAST = 40, 20
#: Maximum number of reasons in the text; the JSON report contains all of them.
_MOST_REASONS = 3
#: Advice for passes that are weaker.
_REQUIRED = "help: --replay required gives no pass to a candidate that cannot be replayed"
#: Descriptions of the kinds of cases, which follow a number in reports, as in `12 with special
#: values`.
_CASES = {
    "ordinary sizes": "at ordinary sizes",
    "sequences of calls": "after other calls",
    "smallest and largest sizes": "at the smallest or largest sizes",
    "views": "with views as arguments",
    "special values": "with special values",
    "sizes about blocks": "at sizes near multiples of the block sizes",
    "unequal special values": "with special values in one argument",
    "one tensor as two arguments": "with one tensor as two arguments",
    "backward passes": "with other backward passes",
    "configurations": "in a given configuration of the autotuner",
    "random sizes, values and views": "with random sizes, values and views",
    "sizes that were found among all": "at sizes found by the analysis of all sizes",
    "launches left out": "without launches",
    "other orders of programs": "with programs in another order",
    "on the GPU": "on the GPU",
    "outside of what the reference takes": "that the reference rejects",
}


def text_of(found: Verification, name: str, *, verbose: bool = False) -> str:
    """Return the report of one verification.

    Args:
        found: Result of the verification.
        name: Name of the candidate.
        verbose: If True, the report has all details. By default, it has at most 40 lines.
    """
    first = list(_first_lines(name, found))
    last = list(_last_lines(found, verbose=verbose))
    if not verbose and len(last) > _MOST_LAST:
        last = [*last[: _MOST_LAST - 1], f"  {_more(len(last) - _MOST_LAST + 1, 'line')}"]
    most = None if verbose else _MOST_LINES - len(first) - len(last) - 1
    return "\n".join([*first, *_failures(found, most), "", *last]) + "\n"


def _first_lines(name: str, found: Verification) -> Iterator[str]:
    """Yield the line with the candidate's name and the verdict, and the lines of the reason.

    If the verdict and the reason do not fit on one line, the reason begins on the next line.
    """
    whole = line_of(name, found, classes=False)
    if len(whole) <= WIDTH:
        yield whole
        return
    yield f"{name}: {found.outcome}"
    yield from _wrapped(found.reason, "    ")


def line_of(name: str, found: Verification, *, classes: bool = True) -> str:
    """Return the result of one verification in one line.

    Args:
        name: Name of the candidate.
        found: Result of the verification.
        classes: If True, the line lists the classes of the failures.
    """
    listed = reasons(found) if classes else found.reason
    return f"{name}: {found.outcome}" + (f" ({listed})" if listed else "")


def reasons(found: Verification) -> str:
    """Return the classes of the failures, or why there is no verdict, or what weakens a `pass`."""
    if found.failures:
        return ", ".join(failure.failure for failure in found.failures)
    return found.reason or ("; ".join(found.notes) if found.outcome == "unknown" else "")


# ---- failures
def _failures(found: Verification, most: int | None) -> list[str]:
    """Return the lines that describe failures and warnings.

    Args:
        found: Result of the verification.
        most: Maximum number of lines; None for no limit. Failures that do not fit are shortened to
            one line each.
    """
    is_folded = most is not None
    failures = [(f, "") for f in found.failures if not (is_folded and f.consequence_of)]
    failures += [(warning, "warning: ") for warning in found.warnings]
    folded = _consequences(found) if is_folded else []
    blocks = [["", *failure_lines(*failure, verbose=most is None)] for failure in failures]
    lines = [line for block in blocks for line in block]
    if most is None or len(lines) + len(folded) <= most:
        return [*lines, *folded]
    kept: list[str] = []
    most -= len(folded)
    left = most - 2 - len(blocks)
    for at, block in enumerate(blocks):
        if len(block) - 1 > left:
            short = [shortened(f"{kind}{f.failure}: {f.detail}", "  ") for f, kind in failures[at:]]
            limit = most - len(kept) - 2
            if len(short) > limit:
                short = [*short[: limit - 1], f"  {_more(len(short) - limit + 1, 'failure')}"]
            return [*kept, *folded, "", *short, f"  {_VERBOSE}"]
        kept += block
        left -= len(block) - 1
    return [*kept, *folded]


_VERBOSE = "`--verbose` shows all details."


def _consequences(found: Verification) -> list[str]:
    """Return a heading, and one line for each failure that another failure explains."""
    folded = [failure for failure in found.failures if failure.consequence_of]
    if not folded:
        return []
    causes = " and ".join(dict.fromkeys(f"`{failure.consequence_of}`" for failure in folded))
    one = len(folded) == 1
    lines = [
        "",
        *wrapped(
            f"{counted(len(folded), 'further failure')} {'is' if one else 'are'} probably "
            f"{'a consequence' if one else 'consequences'} of {causes} (`--verbose` shows "
            f"{'it' if one else 'them'} in full):",
            "  ",
        ),
    ]
    for failure in folded:
        lines.append(shortened(f"{failure.failure}: {failure.detail}", "    "))
        lines += [f"      test: {failure.test}"] if failure.test else []
    return lines


def failure_lines(failure: Failure, kind: str = "", *, verbose: bool) -> Iterator[str]:
    """Yield the lines that describe a failure: class, source line, inputs, and advice.

    Args:
        failure: A failure or a warning.
        kind: Text that precedes the class.
        verbose: If True, the text for an issue is included.
    """
    yield from _wrapped(f"{kind}{failure.failure}: {failure.detail}", "  ")
    if failure.consequence_of:
        yield f"    probably a consequence of `{failure.consequence_of}`"
    location = location_of_line(failure.where)
    if location is not None:
        yield f"    {location_text(location, Path.cwd())}"
    yield from (f"    {line}" for line in failure.excerpt.splitlines()[:2])
    for sentence in filter(None, [failure.witness, failure.rounding]):
        yield from _wrapped(sentence, "    ")
    yield from _wrapped(f"inputs: {circumstances(failure)}", "    ")
    if failure.condition:
        yield from _wrapped(failure.condition, "    ")
    for help_text in advice(failure):
        yield from _wrapped(f"help: {help_text}", "    ")
    if failure.test:
        yield f"    test: {failure.test}"
    if failure.issue and not verbose:
        yield "    `--verbose` shows a text for an issue about the compiler."
    elif failure.issue:
        yield from ("    issue:", "", *(f"      {line}" for line in failure.issue.splitlines()))


def advice(failure: Failure) -> list[str]:
    """Return advice on how to correct a failure, and on how the domain can exclude its inputs."""
    return [text for text in (failure.help, _declaration(failure)) if text]


def _declaration(failure: Failure) -> str:
    """Describe how the domain can exclude the inputs of a failure."""
    if failure.views:
        named = [name for name in failure.views if name != "*"]
        listed = ", ".join(f'"{name}"' for name in named) or "..."
        return f"if callers pass only contiguous tensors, declare CONTIGUOUS = [{listed}]"
    kinds = {failure.values, *failure.values_of.values()} - {"drawn"}
    if any(kind_of(kind).is_special for kind in kinds):
        return "if callers pass only finite values, declare FINITE = [...]"
    return ""


def circumstances(failure: Failure) -> str:
    """Return the inputs of a failure in one line."""
    parts = [f"{name}={value}" for name, value in failure.sizes.items()]
    if failure.dtype:
        parts.append(f"dtype={failure.dtype}")
    parts += [f"{name}={value}" for name, value in failure.choices.items()]
    parts.append(f"seed={failure.seed}")
    text = ", ".join(parts)
    if failure.values != "drawn":
        text += f"; values: {kind_of(failure.values).text}"
    for name, kind in failure.values_of.items():
        text += f"; values of {name}: {kind_of(kind).text}"
    if failure.shared is not None:
        text += f"; {failure.shared[1]} is {failure.shared[0]}"
    if failure.only_grad:
        text += f"; only the gradient of {failure.only_grad} is computed"
    if failure.only_output:
        text += f"; only {failure.only_output} is used in the backward pass"
    if failure.passes == "twice":
        text += "; the backward pass is repeated"
    for name, view in failure.views.items():
        text += f"; {'each tensor' if name == '*' else name} is {VIEW_TEXTS.get(view, view)}"
    if failure.config is not None:
        text += f"; configuration {failure.config} of the autotuner"
    if failure.after:
        text += f"; after {counted(len(failure.after), 'other call')}"
    return text


# ---- what was tried
def _last_lines(found: Verification, *, verbose: bool) -> Iterator[str]:
    cases = found.covered.get("cases", 0)
    counts = [f"{count} {kind}" for kind, count in cases_by_kind(found)]
    listed = f": {', '.join(counts)}" if counts and (verbose or found.verdict == "pass") else ""
    yield from _wrapped(f"tried {counted(cases, 'case')}{listed}", "  ")
    for statement in statements(found):
        yield from _wrapped(statement.text, "  ")
        for detail in statement.details:
            yield from _wrapped(detail, "    ")
    if found.failures and not any(failure.test for failure in found.failures):
        yield "  help: --write-tests DIR writes each failure as a pytest file"


def cases_by_kind(found: Verification) -> Iterator[tuple[str, int]]:
    """Yield a description of each kind of case, with the number of cases of this kind."""
    for kind, count in found.covered.items():
        if isinstance(count, int) and kind != "cases":
            yield _CASES.get(kind, kind), count


def statements(found: Verification) -> Iterator[Statement]:
    """Yield statements about what was examined besides the cases, and about what was not."""
    if emulated := found.covered.get("emulated GPU"):
        yield Statement(f"emulated GPU: {emulated}")
    errors = found.covered.get("largest errors", {})
    if errors and found.verdict == "pass":
        listed = ", ".join(f"{rounded_percent(e)} in {label}" for label, e in errors.items())
        yield Statement(f"largest error, as a share of the tolerance: {listed}")
    yield from _all_sizes(found.covered.get("all sizes", {}))
    yield from _replay(found)
    if found.replay.seed is not None:
        yield Statement(f"hidden seed: {found.replay.seed} (--replay-seed repeats the run)")
    for note in found.notes:
        yield Statement(f"note: {note}")
    yield Statement(f"not checked: {'; '.join(found.not_judged)}")


def _replay(found: Verification) -> Iterator[Statement]:
    """Describe whether a pass was verified by replay."""
    replay = found.replay
    if found.verdict == "pass" and replay.verified:
        yield Statement(
            f"verified by replay: {counted(replay.cases, 'call')} "
            f"{'was' if replay.cases == 1 else 'were'} repeated without the candidate, also on "
            "inputs that it never saw"
        )
    elif found.verdict != "fail":
        for reason in replay.reasons[:_MOST_REASONS] or ("no call could be repeated",):
            yield Statement(f"not verified by replay: {reason}")
        if found.is_weaker:
            yield Statement(_REQUIRED)


def _all_sizes(tried: dict[str, Any]) -> Iterator[Statement]:
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
        more = len(why) - _MOST_REASONS
        details = [*why[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])]
        details += [f"assumed: {assumption}" for assumption in assumed]
        meaning = tried["meaning_of_claimed"] if verdict == CLAIMED else verdict
        text = f"{' '.join(['accesses at all sizes', *shown])}{of}: {meaning}"
        yield Statement(text, tuple(details))


# ---- lines
def _wrapped(text: str, indent: str) -> list[str]:
    return wrapped(text, indent, f"{indent}    ")


def _more(count: int, noun: str) -> str:
    return f"… {count} more {noun}{'' if count == 1 else 's'}; {_VERBOSE}"
