"""The command line of the conformance run.

Exit status: 0 if no case is wrong, 1 if a case is wrong, 2 for wrong usage, 3 if pytest could not
collect the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tools.conformance.outcomes import Case, Outcome
from tools.conformance.report import (
    FunctionResult,
    Report,
    as_json,
    as_markdown,
    print_report,
)
from tools.conformance.selection import (
    UsageError,
    by_function,
    find_files,
    find_tests,
    is_wanted,
    sample,
)
from tools.conformance.workers import (
    CASES_OF_A_WORKER,
    CollectionError,
    PytestWorker,
    WorkerOptions,
)
from tools.harness import (
    Worker,
    output_console,
    positive,
    run_cases,
    versions_and_machine,
    write_section,
)

PIPE_WIDTH = 110  # width of tables if standard output is not a terminal


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.conformance",
        description="Runs the tests that Triton marks for its interpreter on the native engine.",
    )
    parser.add_argument("--checkout", type=Path, required=True, help="Triton's source tree")
    parser.add_argument("--sample", type=positive, metavar="N", help="cases per function; or all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="workers (default 1)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per case (default 60)")
    parser.add_argument(
        "--opt", type=int, choices=range(4), default=1, help="TTOOLS_OPT (default 1)"
    )
    parser.add_argument(
        "--sanitize",
        nargs="?",
        const="default",
        metavar="CHECKS",
        help="check every launch; a case with findings is wrong",
    )
    parser.add_argument(
        "--engine", choices=("native", "eager"), default="native", help="default native"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="FUNCTION", help="repeatable"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every case, as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables, as Markdown")
    return parser.parse_args(arguments)


def describe(options: argparse.Namespace) -> dict[str, str]:
    """Return the command, versions and machine of a run, without paths of this machine."""
    chosen = "all cases" if options.sample is None else f"at most {options.sample} of a function"
    words = [f"--checkout TRITON --seed {options.seed} --jobs {options.jobs}"]
    words += [f"--sample {options.sample}"] if options.sample is not None else []
    words += [f"--timeout {options.timeout:g} --opt {options.opt}"]
    words += [f"--sanitize {options.sanitize}"] if options.sanitize is not None else []
    words += [f"--engine {options.engine}"] if options.engine != "native" else []
    words += (f"--only {name}" for name in options.only)
    return {
        "command": f"`python -m tools.conformance {' '.join(words)}`",
        "cases": f"{chosen}, seed {options.seed}",
        **versions_and_machine(),
    }


def conform(options: argparse.Namespace, console: Console) -> Report:
    """Collect the cases, draw the sample, and run it."""
    begin = time.perf_counter()
    tests = find_tests(options.checkout)
    files = find_files(tests, options.only)
    with tempfile.TemporaryDirectory(
        prefix="ttools-conformance-", ignore_cleanup_errors=True
    ) as scratch:
        setup = WorkerOptions(
            tests=tests,
            files=list(files),
            scratch=Path(scratch),
            timeout=options.timeout,
            opt=options.opt,
            threads=max(1, (os.cpu_count() or 1) // options.jobs),
            checks=options.sanitize,
            engine=options.engine,
        )
        first = PytestWorker(setup)
        cases = [case for case in first.cases if is_wanted(case.function, options.only)]
        chosen = list(sample(cases, options.sample, options.seed))
        outcomes = _run(first, setup, chosen, options.jobs, console)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    failed = {tests / name: reason for name, reason in first.failed_files.items()}
    return Report(
        settings=describe(options),
        functions=_results(cases, outcomes),
        not_imported={name: why for file, why in failed.items() for name in files.get(file, ())},
        seconds=time.perf_counter() - begin,
        cpu_seconds=used.ru_utime + used.ru_stime,
    )


def _run(
    first: PytestWorker,
    setup: WorkerOptions,
    cases: list[Case],
    jobs: int,
    console: Console,
) -> dict[str, Outcome]:
    """Run the cases while showing a progress bar; print failing cases immediately."""
    outcomes: dict[str, Outcome] = {}
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("cases", total=len(cases))

        def run(worker: Worker, case: Case) -> None:
            assert isinstance(worker, PytestWorker)
            outcome = worker.run(case)
            outcomes[outcome.node] = outcome
            progress.advance(task)
            if outcome.status == "wrong":
                text = f"wrong: {outcome.node}: {outcome.reason}"
                progress.console.print(text, markup=False, soft_wrap=True)

        try:
            run_cases(
                *(cases, jobs, lambda: PytestWorker(setup), run),
                first=first,
                most=CASES_OF_A_WORKER,
            )
        except KeyboardInterrupt:
            progress.console.print("interrupted: the report covers what has run")
    return outcomes


def _results(cases: list[Case], outcomes: dict[str, Outcome]) -> list[FunctionResult]:
    groups = by_function(cases)
    return [
        FunctionResult(name, len(group), [outcomes[c.node] for c in group if c.node in outcomes])
        for name, group in groups.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the cases and print the report."""
    options = parse_arguments(arguments)
    errors = Console(stderr=True)
    try:
        report = conform(options, errors)
    except UsageError as error:
        errors.print(f"conformance: {error}", markup=False, soft_wrap=True)
        return 2
    except CollectionError as error:
        errors.print(f"conformance: pytest could not collect:\n{error}", markup=False)
        return 3
    print_report(report, output_console(PIPE_WIDTH))
    if options.json:
        options.json.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        write_section(options.markdown, "conformance", as_markdown(report))
    return 1 if any(outcome.status == "wrong" for outcome in report.outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
