"""Measures precision and recall of the sanitizer's race detection on a labelled corpus.

    python -m tools.race_bench --checkout TRITON_VIZ [--corpus tritonracebench] [--only TEXT]

The corpora are those of triton-viz (branch race-detector-z3-demo, folder `evaluation`). An entry is
a launch with the label `race` or `race-free`, which refers to races between programs, and with the
source lines of the racing accesses. The checkout is not changed. Exit status: 0 if every verdict
matches its label, 1 if not, 2 if there is no such corpus.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.harness import markdown
from tools.libraries.outcomes import first_line
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation
from ttools.sanitizer import sanitize

#: Kinds of findings that correspond to the label `race`: unordered accesses of programs to one
#: element. If the stored values are equal, the finding is a note, but the label is still `race`.
RACES = ("overlapping_store", "race")
RACE, FREE, ABSTAINS = "race", "race-free", "abstains"


@dataclass(frozen=True, kw_only=True)
class Row:
    """The result of one launch.

    Attributes:
        name: Name of the launch.
        label: `race`, `race-free`, or None if the launch is not scored.
        verdict: Verdict of the sanitizer: `race`, `race-free` or `abstains`.
        missing: Lines of the racing accesses that no finding names.
        races: Findings of races, as `kind@line`.
        others: Other findings, as `kind@line`.
        said: Reason why the sanitizer abstains.
    """

    name: str
    label: str | None
    verdict: str
    missing: tuple[int, ...] = ()
    races: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    said: str = ""

    @property
    def right(self) -> bool:
        """True if the verdict matches the label, and the findings name the expected lines."""
        return self.label is None or (self.verdict == self.label and not self.missing)


@dataclass(frozen=True)
class Score:
    """Number of labelled launches by label and verdict; abstentions are counted separately."""

    found: int
    missed: int
    false: int
    free: int
    abstained: int

    @property
    def precision(self) -> float:
        """Return the share of races among the reported races; 1 if none is reported."""
        reported = self.found + self.false
        return self.found / reported if reported else 1.0

    @property
    def recall(self) -> float:
        """Return the share of reported races among the labelled races; 1 if there are none."""
        racy = self.found + self.missed
        return self.found / racy if racy else 1.0


def score(rows: Iterable[Row]) -> Score:
    """Count labels and verdicts. A racy launch without a verdict counts as missed."""
    counts = Counter((row.label, row.verdict) for row in rows if row.label)
    return Score(
        found=counts[RACE, RACE],
        missed=counts[RACE, FREE] + counts[RACE, ABSTAINS],
        false=counts[FREE, RACE],
        free=counts[FREE, FREE],
        abstained=counts[RACE, ABSTAINS] + counts[FREE, ABSTAINS],
    )


def classify(
    name: str, label: str | None, findings: Sequence[Finding], pair: frozenset[int] = frozenset()
) -> Row:
    """Return the result of a launch, given its findings.

    Args:
        name: Name of the launch.
        label: Label as in `Row`.
        findings: Findings of the launch.
        pair: Lines of the racing accesses, if the label names them.
    """
    races = [finding for finding in findings if finding.kind in RACES]
    others = [finding for finding in findings if finding not in races]
    unsupported = [finding for finding in others if finding.kind == "unsupported"]
    named = {place.line for finding in races for place in _places(finding)}
    verdict = RACE if races else ABSTAINS if unsupported else FREE
    return Row(
        name=name,
        label=label,
        verdict=verdict,
        missing=tuple(sorted(pair - named)) if races and label == RACE else (),
        races=tuple(map(_kind_and_line, races)),
        others=tuple(map(_kind_and_line, others)),
        said=unsupported[0].message if unsupported else "",
    )


def _places(finding: Finding) -> list[SourceLocation]:
    """Return the locations of all accesses of a finding."""
    places = [finding.location, *(related.location for related in finding.related)]
    return [place for place in places if place is not None]


def _kind_and_line(finding: Finding) -> str:
    severity = "" if finding.severity == "error" else f" ({finding.severity})"
    line = finding.location.line if finding.location else "?"
    return f"{finding.kind}@{line}{severity}"


def lines_of(kernel: Any, needles: Iterable[str]) -> frozenset[int]:
    """Return the lines of a kernel's source that contain one of the texts."""
    text, start = inspect.getsourcelines(kernel.fn)
    numbers = {start + n for n, line in enumerate(text) for needle in needles if needle in line}
    return frozenset(numbers)


def run(spec: Any, seed: int = 0) -> Row:
    """Launch one entry of a corpus under the sanitizer.

    Args:
        spec: Entry with `name`, `kernel_fn`, `constexprs`, `make_args`, `grid`, `expected` and
            `race_pair`.
        seed: Seed of the arguments.
    """
    # Constexpr parameters may be anywhere in the signature, so arguments are passed by name.
    names = [name for name in spec.kernel_fn.arg_names if name not in spec.constexprs]
    arguments = dict(zip(names, spec.make_args(seed), strict=False))
    pair = lines_of(spec.kernel_fn, spec.race_pair or ())
    try:
        with sanitize() as report:
            spec.kernel_fn[spec.grid](**arguments, **spec.constexprs)
    except Exception as error:  # noqa: BLE001 (any error means that there is no verdict)
        said = first_line(f"{type(error).__name__}: {error}")
        return Row(name=spec.name, label=spec.expected, verdict=ABSTAINS, said=said)
    return classify(spec.name, spec.expected, report.findings, pair)


def load(checkout: Path, corpus: str) -> Sequence[Any]:
    """Return the entries of a corpus in a checkout.

    Raises:
        ModuleNotFoundError: There is no such corpus.
    """
    sys.path.insert(0, str(checkout.resolve()))
    specs: Sequence[Any] = importlib.import_module(f"evaluation.kernels.{corpus}").CORPUS.specs
    return specs


def table(rows: Iterable[Row]) -> str:
    """Return a table with a row for each launch."""
    cells = (
        (
            row.name,
            row.label or "not labelled",
            row.verdict + ("" if row.right else " (wrong)"),
            ", ".join(row.races) or row.said,
            ", ".join(row.others),
        )
        for row in rows
    )
    return markdown(("launch", "label", "verdict", "races", "other findings"), cells)


def summary(rows: Sequence[Row]) -> str:
    """Return the scores in two lines."""
    total = score(rows)
    astray = sum(bool(row.missing) for row in rows)
    unlabelled = sum(row.label is None for row in rows)
    return (
        f"races found {total.found}, missed {total.missed}; race-free launches {total.free}, "
        f"of them falsely reported {total.false}; abstained {total.abstained}; "
        f"not labelled {unlabelled}; found at other lines {astray}\n"
        f"precision {total.precision:.3f}, recall {total.recall:.3f}"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run a corpus and print the results; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.race_bench",
        description="Score the sanitizer on launches labelled as racy or race-free.",
    )
    parser.add_argument("--checkout", type=Path, required=True, metavar="DIR")
    parser.add_argument("--corpus", default="tritonracebench", metavar="NAME")
    parser.add_argument("--only", default="", metavar="TEXT", help="only names that contain TEXT")
    parser.add_argument("--seed", type=int, default=0, help="seed of the arguments (default 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every launch, as JSON")
    options = parser.parse_args(words)
    try:
        specs = load(options.checkout, options.corpus)
    except ModuleNotFoundError as error:
        parser.error(f"{options.checkout} has no corpus `{options.corpus}`: {error}")
    rows = []
    for spec in specs:
        if options.only in spec.name:
            rows.append(run(spec, options.seed))
            print(f"{spec.name}: {rows[-1].verdict}", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(table(rows) + "\n\n" + summary(rows))
    return int(not all(row.right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
