"""`ttools verify`: compares a candidate with its reference over all inputs a caller may pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.console import (
    keep_stdout_for_report,
    require_folder,
    say,
    verbosity,
    write_text,
)
from ttools.cli.options import read_ray
from ttools.cli.progress import State, ticking
from ttools.core.errors import UsageError
from ttools.core.location import shown_line
from ttools.core.reports.markdown_syntax import text_as_markdown
from ttools.core.reports.report import counted

if TYPE_CHECKING:
    from ttools.verifier.batch.folder import Executor
    from ttools.verifier.options import VerifyOptions
    from ttools.verifier.result import Verification


_report = partial(typer.Option, rich_help_panel="Report")
_run = partial(typer.Option, rich_help_panel="Run")

CandidateArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE.py[:CANDIDATE]",
        show_default=False,
        help="The function to verify; by default `candidate`, or the only function of the file "
        "that can be one.",
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="FILE.py[:NAME]",
        help="Function that computes the correct results in torch; by default `reference` in the "
        "candidate's file.",
    ),
]
InputsOption = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE.py[:NAME]",
        help="Function that returns keyword arguments, with its DOMAIN; by default `inputs` in the "
        "candidate's file.",
    ),
]
BatchOption = Annotated[
    Path | None,
    _run(
        "--batch",
        metavar="FOLDER",
        help="Verify each file in a folder; each contains a candidate, a reference and inputs.",
    ),
]
RayOption = Annotated[
    str | None,
    _run(
        "--ray",
        metavar="ADDRESS[@N]",
        help="With --batch: verify files on a Ray cluster, N at a time; `local` starts one on this "
        "machine.",
    ),
]
JobsOption = Annotated[
    int, _run("--jobs", min=1, metavar="N", help="With --batch: verify N files at a time.")
]
CasesOption = Annotated[
    int | None,
    _run(
        "--cases",
        min=1,
        metavar="N",
        show_default="400",
        help="Maximum number of cases; a pass then covers only these.",
    ),
]
SecondsOption = Annotated[
    float | None,
    _run(
        "--seconds",
        min=1,
        metavar="S",
        help="Start no new case after S seconds; if cases remain, the verdict is not a pass.",
    ),
]
MemoryOption = Annotated[
    str,
    _run(
        "--memory",
        metavar="AMOUNT",
        help="Memory limit of each process; an answer of the candidate may use a quarter of it.",
    ),
]
SeedOption = Annotated[int, _run("--seed", metavar="N", help="Seed of inputs.")]
AllSizesOption = Annotated[
    float | None,
    _run(
        "--all-sizes-seconds",
        min=0,
        metavar="S",
        help="Time limit for proofs of accesses at all sizes of the domain (5 to 25); 0 for none.",
    ),
]
ReplayOption = Annotated[
    Literal["on", "off", "required"],
    _run(
        "--replay",
        help="Repeat calls in a process without the candidate, also on inputs that it has never "
        "seen; `required`: give no verdict on a candidate whose calls cannot be repeated.",
    ),
]
ReplaySeedOption = Annotated[
    int | None,
    _run(
        "--replay-seed",
        min=0,
        metavar="N",
        help="Seed of random sizes and of the inputs of --replay, which a report contains, to "
        "repeat a run; by default, random in each run.",
    ),
]
FailOnOption = Annotated[
    Literal["error", "warning", "note"],
    _report("--fail-on", help="Fail on findings of at least this severity; others are shown."),
]
FailOnTorchOption = Annotated[
    bool,
    _report(
        "--fail-on-torch",
        help="Fail if torch finishes what kernels computed, as by a final sum; by default, a note.",
    ),
]
OnOption = Annotated[
    Literal["cpu", "gpu"],
    _run(
        "--on",
        help="Where the candidate runs: cpu, or gpu to run it on both and compare the results.",
    ),
]
GpuOption = Annotated[
    str | None,
    _run(
        "--gpu",
        metavar="GPU",
        autocompletion=completion.cuda_gpus,
        help="Emulate h100, a100, rtx4090, … or an architecture such as sm_90: its capability, "
        "multiprocessors and launch rules.",
    ),
]
WriteTestsOption = Annotated[
    Path | None,
    _report("--write-tests", metavar="DIR", help="Write each failure as a pytest file."),
]
VerboseOption = Annotated[
    bool,
    _report(
        "--verbose", "-v", help="Show all failures in full, and how many cases of each kind ran."
    ),
]
VerdictFormatOption = Annotated[
    Literal["text", "markdown", "json", "brief", "html", "sarif", "junit", "github"],
    _report(
        "--format",
        help="Format of the report. With --batch, json has a line per file, and sarif and github "
        "are not available.",
    ),
]


#: Exit statuses by verdict.
STATUS = {
    "pass": exit_codes.OK,
    "fail": exit_codes.FINDINGS,
    "inconclusive": exit_codes.UNKNOWN,
}


def verify_command(
    candidate: CandidateArgument = None,
    reference: ReferenceOption = None,
    inputs: InputsOption = None,
    batch: BatchOption = None,
    jobs: JobsOption = 1,
    ray: RayOption = None,
    cases: CasesOption = None,
    seconds: SecondsOption = None,
    memory: MemoryOption = "8GB",
    seed: SeedOption = 0,
    all_sizes_seconds: AllSizesOption = None,
    replay: ReplayOption = "on",
    replay_seed: ReplaySeedOption = None,
    on: OnOption = "cpu",
    gpu: GpuOption = None,
    fail_on: FailOnOption = "error",
    fail_on_torch: FailOnTorchOption = False,
    write_tests: WriteTestsOption = None,
    verbose: VerboseOption = False,
    form: VerdictFormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Verify a kernel against its reference, over all inputs that a caller may pass.

    This covers sizes, types, views, special values, repeated calls, all checks of `ttools
    sanitize`, and whether the candidate itself computed the results. The exit status is 0 if all is
    correct, 1 if the candidate fails, 2 for wrong usage, 3 for a failure of ttools, 4 without a
    verdict.
    """
    require_folder(output)
    keep_stdout_for_report(form, output)
    from ttools.core.gpus.memory import read_memory
    from ttools.verifier.options import MOST_CASES, VerifyOptions

    settings = VerifyOptions(
        cases=cases,
        seconds=seconds,
        memory=read_memory(memory),
        seed=seed,
        on=on,
        gpu=gpu,
        fail_on=fail_on,
        fail_on_torch=fail_on_torch,
        all_sizes_seconds=all_sizes_seconds,
        replay=replay,
        replay_seed=replay_seed,
    )
    if batch is not None:
        if candidate or reference or inputs or write_tests:
            raise UsageError("--batch verifies the files of a folder; do not give other files")
        if form in ("sarif", "github"):
            raise UsageError(f"--batch writes text, markdown, json, html or junit, not {form}")
        raise typer.Exit(_batch(batch, _executor(batch, jobs, ray, settings), form, output))
    if ray is not None:
        raise UsageError("--ray needs --batch")
    if candidate is None:
        raise UsageError("no candidate is given: ttools verify FILE.py:CANDIDATE")
    from ttools.verifier.api import subject_of
    from ttools.verifier.serving import verify_here

    subject = subject_of(candidate, reference, inputs)

    counts = 0, 0

    def report_progress(tried: int, failing: int, activity: str) -> None:
        nonlocal counts
        counts = tried, failing
        tick(_state(tried, failing, settings.cases or MOST_CASES, activity))

    interrupted = False
    with ticking() as tick:
        try:
            verification = verify_here(subject, settings, write_tests, report_progress)
        except KeyboardInterrupt:
            verification, interrupted = _interrupted(*counts), True
    verification = replace(verification, candidate=shown_line(subject["candidate"]))
    if form in ("text", "markdown"):
        from ttools.verifier.report.text import text_of

        shown_in_full = verbose or verbosity() == "verbose"
        text = text_of(verification, verification.candidate, verbose=shown_in_full)
        write_text(text_as_markdown(text) if form == "markdown" else text, output)
    else:
        write_text(verification.to(form), output)
    raise typer.Exit(exit_codes.INTERRUPTED if interrupted else STATUS[verification.verdict])


def _interrupted(tried: int, failing: int) -> Verification:
    """Return the result of a run that Ctrl-C ended, which has no verdict."""
    from ttools.verifier.result import Verification

    reason = f"interrupted in case {tried:,} of the plan, after {counted(failing, 'failed case')}"
    return Verification(
        verdict="inconclusive",
        reason=reason,
        failures=(),
        covered={"cases": tried},
    )


def _state(tried: int, failing: int, most: int, activity: str = "") -> State:
    if activity:  # no further cases are tried, so a total or a remaining time would be wrong
        cases = f"{failing:,} of {counted(tried, 'case')} failed"
        return State(what=activity, done=None, unit="cases", facts=(cases,))
    return State(
        what="verified",
        done=tried,
        total=most,
        unit="cases at most",
        one="case at most",
        facts=(f"{failing} failed",),
    )


def _executor(
    folder: Path, jobs: int, ray: str | None, settings: VerifyOptions
) -> Callable[[], Executor]:
    from ttools.verifier.batch.cluster import Cluster
    from ttools.verifier.batch.forks import Forks

    if ray is None:
        return lambda: Forks(jobs, settings)
    if jobs > 1:
        raise UsageError("--jobs and --ray both say where files are verified; give one of them")
    address, actors = read_ray(ray, what="files", extra="ttools-verifier[ray]")
    return lambda: Cluster(actors, settings, folder, address)


def _batch(folder: Path, start: Callable[[], Executor], form: str, output: Path | None) -> int:
    from ttools.verifier.batch.folder import verify_folder
    from ttools.verifier.report.text import line_of

    verified: dict[str, Verification] = {}
    by_line = form in ("text", "json")  # Other formats are written at the end.

    def report(name: str, verification: Verification, line: str) -> None:
        verified[name] = verification
        failed = sum(one.verdict == "fail" for one in verified.values())
        facts = (f"{failed} failed",)
        tick(State(what="verified", done=len(verified), unit="files", facts=facts))
        if output is None and by_line:
            write_text((line if form == "json" else line_of(name, verification)) + "\n", None)

    skipped, interrupted = 0, False
    with ticking(shared=output is None) as tick:
        try:
            skipped = verify_folder(folder, start, report, output if by_line else None)
        except KeyboardInterrupt:
            interrupted = True
    if not by_line:
        from ttools.verifier.report import batch

        write_text(batch.write(form, folder, verified), output)
    if interrupted:
        say(
            "error",
            f"interrupted after {counted(len(verified), 'file')}; the others were not verified",
        )
        return exit_codes.INTERRUPTED
    if skipped:
        were = f"{counted(skipped, 'file')} {'was' if skipped == 1 else 'were'}"
        say("note", f"{were} skipped, because a verdict exists already")
    verdicts = {one.verdict for one in verified.values()}
    return next((STATUS[one] for one in ("fail", "inconclusive") if one in verdicts), exit_codes.OK)
