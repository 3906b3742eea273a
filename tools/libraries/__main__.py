"""The command line: `python -m tools.libraries flag-gems` and `… liger --checkout FOLDER`.

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

from tools.libraries import flag_gems, liger
from tools.libraries.outcomes import Outcome, markdown, summary


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.libraries", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    gems = commands.add_parser("flag-gems", help="operators of FlagGems against torch's own")
    gems.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    gems.add_argument("--timeout", type=float, default=60.0, help="seconds for an operator")
    own = commands.add_parser("liger", help="the test files of a checkout of Liger-Kernel")
    own.add_argument("--checkout", type=Path, required=True, metavar="FOLDER")
    own.add_argument("--only", action="append", default=[], metavar="NAME", help="test_NAME.py")
    own.add_argument("--sample", type=int, default=0, metavar="N", help="cases of a function")
    own.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    own.add_argument("--timeout", type=float, default=60.0, help="seconds for a case")
    own.add_argument("--file-timeout", type=float, default=600.0, help="seconds for a file")
    for command in (gems, own):
        command.add_argument("--json", type=Path, metavar="FILE", help="every case, as JSON")
    return parser.parse_args()


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
    return liger.run(
        liger.LigerOptions(
            checkout=options.checkout.resolve(),
            only=tuple(options.only),
            sample=options.sample,
            seed=options.seed,
            case_timeout=options.timeout,
            file_timeout=options.file_timeout,
        )
    )


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
    begin = time.perf_counter()
    cases = {"flag-gems": flag_gems_cases, "liger": liger_cases}[options.command]
    outcomes = follow(cases(options))
    if options.command == "liger":
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
