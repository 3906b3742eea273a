"""The command line for tests and proofs of third-party libraries.

    python -m tools.libraries flag-gems                          # operators of FlagGems
    python -m tools.libraries SUITE --checkout FOLDER            # tests of a library in suites.py
    python -m tools.libraries tests --checkout FOLDER FILE...    # test files of any library
    python -m tools.libraries sizes LIBRARY --checkout FOLDER    # proofs of launches for all sizes
    python -m tools.libraries compare OFF.json CHECKED.json      # findings and cost of checks

Exit status: 0 if every case passes or is rejected by its library, and no proof is refuted; else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import distributions
from pathlib import Path

from tools.harness import markdown
from tools.libraries import checkout, flag_gems, sizes
from tools.libraries.outcomes import Outcome, comparison, summary
from tools.libraries.suites import SUITES, Suite


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.libraries", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    gems = commands.add_parser("flag-gems", help="compare operators of FlagGems with torch")
    gems.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    gems.add_argument("--timeout", type=float, default=60.0, help="seconds for an operator")
    tests = commands.add_parser("tests", help="run test files of a checkout of any library")
    tests.add_argument("files", nargs="+", type=Path, metavar="FILE", help="relative to --checkout")
    own = [add_suite(commands.add_parser(name, help=s.title), s) for name, s in SUITES.items()]
    add_checkout(tests, Suite(title="", folder="", files=()))
    for command in (gems, tests, *own):
        command.add_argument("--json", type=Path, metavar="FILE", help="every case, as JSON")
    add_sizes(commands.add_parser("sizes", help="prove the launches of a library for all sizes"))
    compare = commands.add_parser("compare", help="compare runs of a suite without and with checks")
    compare.add_argument("unchecked", type=Path, help="output of --checks off --json")
    compare.add_argument("checked", type=Path, help="output of --checks default --json")
    return parser.parse_args()


def add_sizes(command: argparse.ArgumentParser) -> None:
    """Add the options of proofs for all sizes."""
    has = sizes.SizesOptions(checkout=Path())
    add = command.add_argument
    add("library", choices=(*sizes.FOLDERS, *sizes.TESTS))
    add("--checkout", type=Path, required=True, metavar="FOLDER")
    add("--only", action="append", default=[], metavar="SCRIPT", help="a script, without .py")
    add("--sample", type=int, default=has.sample, metavar="N", help="N scripts at random; 0: all")
    add("--seed", type=int, default=has.seed, help="seed of sample and attacks (default 0)")
    add("--timeout", type=float, default=has.timeout, help="seconds for a script")
    add("--seconds", type=float, default=has.seconds, help="seconds for the proof of a launch")
    add("--patience", type=float, default=has.patience, help="seconds for a script and its proofs")
    add("--memory", type=int, default=has.memory, help="most bytes of a launch's tensors (2^31)")
    add("--attacks", type=int, default=has.attacks, help="random launches against each proof")
    add("--attack-seconds", type=float, default=has.attack_seconds, help="limit for each proof")
    add("--json", type=Path, metavar="FILE", help="every launch, as JSON")


def add_suite(command: argparse.ArgumentParser, suite: Suite) -> argparse.ArgumentParser:
    """Add the options of a library with a suite."""
    command.add_argument(
        "--only", action="append", default=[], metavar="FILE", help="a test file, without .py"
    )
    add_checkout(command, suite)
    command.set_defaults(suite=suite)
    return command


def add_checkout(command: argparse.ArgumentParser, suite: Suite) -> None:
    """Add the options that select files and cases of a checkout; the suite defines the defaults."""
    has = suite.selection
    add = command.add_argument
    add("--checkout", type=Path, required=True, metavar="FOLDER")
    add("--path", action="append", default=[], type=Path, metavar="FOLDER", help="import path")
    add("--sample", type=int, default=has.sample, metavar="N", help="cases per function; 0: all")
    add("--smallest", action="store_true", default=has.smallest, help="sample the smallest ones")
    add("--seed", type=int, default=has.seed, help="seed of the sample (default 0)")
    add(
        "--at-most",
        action="append",
        default=[f"{name}={limit}" for name, limit in has.at_most.items()],
        metavar="NAME=N",
        help="limit for a parameter of tests; larger values are replaced by it",
    )
    add("--device-map", default=suite.device_map, help="same as for `ttools interpret`")
    add(
        "--checks",
        metavar="CHECKS",
        help="checks of the pytest plugin, for example default; off: plain pytest",
    )
    add("--timeout", type=float, default=60.0, help="seconds for a case")
    add("--silence", type=float, default=600.0, help="kill a process after S silent seconds")


def follow(batches: Iterator[list[Outcome]], file: Path | None) -> list[Outcome]:
    """Print cases that do not pass, write all outcomes to a file, and return them."""
    outcomes: list[Outcome] = []
    for batch in batches:
        outcomes += batch
        if file:  # the file is replaced atomically, so that it is always complete
            part = file.with_name(f"{file.name}.part")
            part.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
            part.replace(file)
        for outcome in batch:
            if outcome.verdict != "pass":
                print(f"{outcome.verdict:11} {outcome.name}: {outcome.reason}", flush=True)
    return outcomes


def versions(*names: str, path: Sequence[Path] = ()) -> str:
    """Return the versions of distributions, and of Triton and torch, installed or in folders."""
    texts = []
    folders = [*map(str, path), *sys.path]
    for name in (*names, "triton", "torch"):
        distribution = next(iter(distributions(name=name, path=folders)), None)
        texts.append(f"{name} {distribution.version if distribution else 'absent'}")
    return ", ".join(texts)


def flag_gems_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Run the operators of the installed FlagGems."""
    print(versions("flag-gems"))
    return flag_gems.run(options.only, options.timeout)


def suite_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Run the test files of a checkout that a suite selects."""
    suite: Suite = options.suite
    print(versions(*suite.packages, path=options.path))
    return checkout.run(suite.paths(options.checkout, options.only), of_checkout(options, suite))


def test_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Run test files of any checkout."""
    print(versions())
    files = [(str(file), options.checkout / file) for file in options.files]
    return checkout.run(files, of_checkout(options, Suite(title="", folder="", files=())))


def of_checkout(options: argparse.Namespace, suite: Suite) -> checkout.CheckoutOptions:
    """Return the options for running files of a checkout."""
    limits = (limit.partition("=") for limit in options.at_most)
    selection = replace(
        suite.selection,
        sample=options.sample,
        smallest=options.smallest,
        seed=options.seed,
        at_most={name: int(limit) for name, _, limit in limits},
    )
    return checkout.CheckoutOptions(
        checkout=options.checkout,
        path=(
            *(options.checkout / folder for folder in suite.imports),
            *(folder.resolve() for folder in options.path),
        ),
        selection=selection,
        case_timeout=options.timeout,
        silence=options.silence,
        device_map=options.device_map,
        environment=suite.environment,
        arguments=suite.arguments,
        checks=options.checks,
    )


CASES = {
    "flag-gems": flag_gems_cases,
    "tests": test_cases,
    **dict.fromkeys(SUITES, suite_cases),
}


def by_group(outcomes: list[Outcome]) -> str:
    """Return a table of the number of cases by file and verdict."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.name.partition("::")[0], []).append(outcome)
    rows = [(name, str(len(cases)), summary(cases)) for name, cases in groups.items()]
    return markdown(("file", "cases", "outcome"), rows)


def prove_sizes(options: argparse.Namespace) -> int:
    """Prove the launches of a library for all sizes, and try to refute the proofs."""
    names = [field.name for field in fields(sizes.SizesOptions)]
    values = {name: getattr(options, name) for name in names}
    values["checkout"] = values["checkout"].resolve()
    print(versions())
    done: list[list[sizes.Row]] = []
    for script in sizes.run(options.library, sizes.SizesOptions(**values)):
        done.append(script)
        print("\n".join(sizes.show(script)), flush=True)
        if options.json:  # the file is updated after every script
            options.json.write_text(json.dumps(done, indent=1) + "\n")
    print("\n" + sizes.table({options.library: done}))
    print("\n" + sizes.reasons(done))
    return int(any(map(sizes.is_refuted, done)))


def compare_runs(options: argparse.Namespace) -> int:
    """Print findings and cost of checks in a suite; return 1 if checks change an outcome."""
    runs = [json.loads(file.read_text()) for file in (options.unchecked, options.checked)]
    unchecked, checked = ({case["name"]: Outcome(**case) for case in run} for run in runs)
    print(comparison(unchecked, checked))
    lost = [
        case
        for name, case in checked.items()
        if name in unchecked and unchecked[name].verdict == "pass" and case.verdict != "pass"
    ]
    for case in lost:
        print(f"\n{case.verdict}: {case.name}: {case.reason}\n{case.report}".rstrip())
    return int(bool(lost))


def main() -> int:
    """Run the selected library or command."""
    options = parse_arguments()
    if options.command == "sizes":
        return prove_sizes(options)
    if options.command == "compare":
        return compare_runs(options)
    if options.command != "flag-gems":
        options.checkout = options.checkout.resolve()
    begin = time.perf_counter()
    outcomes = follow(CASES[options.command](options), options.json)
    if options.command != "flag-gems":
        print("\n" + by_group(outcomes))
    rows = [(o.name, o.verdict, o.reason) for o in outcomes if o.verdict != "pass"]
    if rows:
        print("\n" + markdown(("case", "verdict", "reason"), rows))
    print(f"\n{len(outcomes)} cases: {summary(outcomes)}; {time.perf_counter() - begin:.0f} s")
    return int(any(o.verdict not in ("pass", "skipped") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
