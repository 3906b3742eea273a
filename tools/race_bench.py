"""The sanitizer on a corpus of launches labelled as racy or not: precision and recall.

    python -m tools.race_bench --checkout TRITON_VIZ [--corpus tritonracebench] [--only TEXT]

Owns the reading of labels and the scores. The corpora are those of triton-viz (branch
race-detector-z3-demo, folder `evaluation`): a launch each, labelled `race` or `race-free` for
races between programs, with the source lines of the racing pair. Nothing of the checkout is copied
or changed. Exit status: 0 when every label was met, else 1; 2 when there is no such corpus.
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

#: The kinds that say what a label says: programs that touch an element in no order. Equal values
#: make an overlapping store a note, and a race nonetheless.
RACES = ("overlapping_store", "race")
RACE, FREE, ABSTAINS = "race", "race-free", "abstains"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One launch.

    Attributes:
        name: of the launch.
        label: `race`, `race-free`, or None: not scored.
        verdict: of the sanitizer: `race`, `race-free` or `abstains`.
        missing: lines of the racing pair that no finding names.
        races: the findings that say so, as `kind@line`.
        others: the other findings, likewise.
        said: why it abstains.
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
        """Whether the verdict is the label, and names the lines it should."""
        return self.label is None or (self.verdict == self.label and not self.missing)


@dataclass(frozen=True)
class Score:
    """How many labelled launches came to what; an abstention is neither found nor free."""

    found: int
    missed: int
    false: int
    free: int
    abstained: int

    @property
    def precision(self) -> float:
        """Of the races reported, the share that are races; 1 if none is reported."""
        reported = self.found + self.false
        return self.found / reported if reported else 1.0

    @property
    def recall(self) -> float:
        """Of the races there are, the share reported; 1 if there are none."""
        racy = self.found + self.missed
        return self.found / racy if racy else 1.0


def score(rows: Iterable[Row]) -> Score:
    """Counts labels against verdicts. A racy launch without a verdict is missed."""
    counts = Counter((row.label, row.verdict) for row in rows if row.label)
    return Score(
        found=counts[RACE, RACE],
        missed=counts[RACE, FREE] + counts[RACE, ABSTAINS],
        false=counts[FREE, RACE],
        free=counts[FREE, FREE],
        abstained=counts[RACE, ABSTAINS] + counts[FREE, ABSTAINS],
    )


def judge(
    name: str, label: str | None, findings: Sequence[Finding], pair: frozenset[int] = frozenset()
) -> Row:
    """What the findings of a launch come to.

    Args:
        name: of the launch.
        label: as in `Row`.
        findings: of the launch.
        pair: the lines of the racing accesses, if the label names them.
    """
    races = [finding for finding in findings if finding.kind in RACES]
    others = [finding for finding in findings if finding not in races]
    unjudged = [finding for finding in others if finding.kind == "unsupported"]
    named = {place.line for finding in races for place in _places(finding)}
    verdict = RACE if races else ABSTAINS if unjudged else FREE
    return Row(
        name=name,
        label=label,
        verdict=verdict,
        missing=tuple(sorted(pair - named)) if races and label == RACE else (),
        races=tuple(map(_told, races)),
        others=tuple(map(_told, others)),
        said=unjudged[0].message if unjudged else "",
    )


def _places(finding: Finding) -> list[SourceLocation]:
    """Where a finding says that something is accessed."""
    places = [finding.location, *(related.location for related in finding.related)]
    return [place for place in places if place is not None]


def _told(finding: Finding) -> str:
    severity = "" if finding.severity == "error" else f" ({finding.severity})"
    line = finding.location.line if finding.location else "?"
    return f"{finding.kind}@{line}{severity}"


def lines_of(kernel: Any, needles: Iterable[str]) -> frozenset[int]:
    """The lines of a kernel's source that contain one of these texts."""
    text, start = inspect.getsourcelines(kernel.fn)
    found = {start + n for n, line in enumerate(text) for needle in needles if needle in line}
    return frozenset(found)


def run(spec: Any, seed: int = 0) -> Row:
    """Launches one entry of a corpus under the sanitizer.

    Args:
        spec: with `name`, `kernel_fn`, `constexprs`, `make_args`, `grid`, `expected`, `race_pair`.
        seed: of its arguments.
    """
    # Constants may stand between the other parameters.
    names = [name for name in spec.kernel_fn.arg_names if name not in spec.constexprs]
    arguments = dict(zip(names, spec.make_args(seed), strict=False))
    pair = lines_of(spec.kernel_fn, spec.race_pair or ())
    try:
        with sanitize() as report:
            spec.kernel_fn[spec.grid](**arguments, **spec.constexprs)
    except Exception as error:  # noqa: BLE001 (whatever stops a launch, it was not judged)
        said = first_line(f"{type(error).__name__}: {error}")
        return Row(name=spec.name, label=spec.expected, verdict=ABSTAINS, said=said)
    return judge(spec.name, spec.expected, report.findings, pair)


def load(checkout: Path, corpus: str) -> Sequence[Any]:
    """The entries of a corpus of a checkout.

    Raises:
        ModuleNotFoundError: there is no such corpus.
    """
    sys.path.insert(0, str(checkout.resolve()))
    specs: Sequence[Any] = importlib.import_module(f"evaluation.kernels.{corpus}").CORPUS.specs
    return specs


def table(rows: Iterable[Row]) -> str:
    """One line for each launch."""
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
    """The scores in two lines."""
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
    """Runs a corpus."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.race_bench",
        description="Score the sanitizer on launches labelled as racy or race-free.",
    )
    parser.add_argument("--checkout", type=Path, required=True, metavar="DIR")
    parser.add_argument("--corpus", default="tritonracebench", metavar="NAME")
    parser.add_argument("--only", default="", metavar="TEXT", help="launches with this in the name")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments (0)")
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
