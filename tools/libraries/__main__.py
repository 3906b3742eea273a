"""The command line: `python -m tools.libraries flag-gems`, `… liger --checkout FOLDER` and
`… tests --checkout FOLDER FILE…`, the latter for the test files of any library.

Exit status: 0 when every case passes or is refused by its library, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.libraries import checkout, flag_gems, liger
from tools.libraries.outcomes import Outcome, markdown, summary


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.libraries", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    gems = commands.add_parser("flag-gems", help="operators of FlagGems against torch's own")
    gems.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    gems.add_argument("--timeout", type=float, default=60.0, help="seconds for an operator")
    own = commands.add_parser("liger", help="the test files of a checkout of Liger-Kernel")
    own.add_argument("--only", action="append", default=[], metavar="NAME", help="test_NAME.py")
    tests = commands.add_parser("tests", help="test files of a checkout of any library")
    tests.add_argument("files", nargs="+", type=Path, metavar="FILE", help="relative to --checkout")
    for command in (own, tests):
        add_checkout(command)
    for command in (gems, own, tests):
        command.add_argument("--json", type=Path, metavar="FILE", help="every case, as JSON")
    return parser.parse_args()


def add_checkout(command: argparse.ArgumentParser) -> None:
    """What to run of a checkout, and for how long."""
    command.add_argument("--checkout", type=Path, required=True, metavar="FOLDER")
    command.add_argument(
        "--path", action="append", default=[], type=Path, metavar="FOLDER", help="to import from"
    )
    command.add_argument("--sample", type=int, default=0, metavar="N", help="cases of a function")
    command.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    command.add_argument("--timeout", type=float, default=60.0, help="seconds for a case")
    command.add_argument("--file-timeout", type=float, default=600.0, help="seconds for a file")


def follow(batches: Iterator[list[Outcome]]) -> list[Outcome]:
    """Prints what does not pass as it comes; gives everything back."""
    outcomes: list[Outcome] = []
    for batch in batches:
        outcomes += batch
        for outcome in batch:
            if outcome.verdict != "pass":
                print(f"{outcome.verdict:11} {outcome.name}: {outcome.reason}", flush=True)
    return outcomes


def versions(*distributions: str) -> str:
    """The installed versions of these and of what they run on."""
    found = []
    for name in (*distributions, "triton", "torch"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


def flag_gems_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """The operators of the installed FlagGems."""
    print(versions("flag-gems"))
    return flag_gems.run(options.only, options.timeout)


def liger_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """The test files of a checkout of Liger-Kernel."""
    print(versions("transformers"))
    return checkout.run(liger.test_files(options.checkout, options.only), of_checkout(options))


def test_cases(options: argparse.Namespace) -> Iterator[list[Outcome]]:
    """Test files of any checkout."""
    print(versions())
    files = [(str(file), options.checkout / file) for file in options.files]
    return checkout.run(files, of_checkout(options))


def of_checkout(options: argparse.Namespace) -> checkout.CheckoutOptions:
    """How the files run."""
    return checkout.CheckoutOptions(
        checkout=options.checkout,
        path=tuple(folder.resolve() for folder in options.path),
        sample=options.sample,
        seed=options.seed,
        case_timeout=options.timeout,
        file_timeout=options.file_timeout,
    )


CASES = {"flag-gems": flag_gems_cases, "liger": liger_cases, "tests": test_cases}


def by_group(outcomes: list[Outcome]) -> str:
    """How many cases of each file came to what."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.name.partition("::")[0], []).append(outcome)
    rows = [(name, str(len(cases)), summary(cases)) for name, cases in groups.items()]
    return markdown(("file", "cases", "outcome"), rows)


def main() -> int:
    """Runs a library."""
    options = parse_arguments()
    if options.command != "flag-gems":
        options.checkout = options.checkout.resolve()
    begin = time.perf_counter()
    outcomes = follow(CASES[options.command](options))
    if options.command != "flag-gems":
        print("\n" + by_group(outcomes))
    rows = [(o.name, o.verdict, o.reason) for o in outcomes if o.verdict != "pass"]
    if rows:
        print("\n" + markdown(("case", "verdict", "reason"), rows))
    print(f"\n{len(outcomes)} cases: {summary(outcomes)}; {time.perf_counter() - begin:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    return int(any(o.verdict not in ("pass", "refused") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
