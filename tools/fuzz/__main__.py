"""Runs random kernels on the engine and compares them with NumPy: see docs/reference/fuzzing.md.

    python -m tools.fuzz --seconds 60 --processes 2     # a campaign
    python -m tools.fuzz --seed 4711                    # one kernel, in all variants
    python -m tools.fuzz --gpu --seconds 280 --processes 12
    python -m tools.fuzz --mutate liger --seconds 280   # mutants of a package's kernels

The exit status is 1 if a kernel fails. With `--gpu`, a kernel does not count as failed if only the
GPU or only NumPy differs from the other two results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.report import Campaign, as_json, markdown
from ttools.cli.progress import State, ticking
from ttools.fuzz.generate.context import Features
from ttools.fuzz.generate.kernel import generate
from ttools.fuzz.mutation.capture import capture_script
from ttools.fuzz.mutation.trial import MutantTrial
from ttools.fuzz.script import script
from ttools.fuzz.self_test import smallest_script
from ttools.fuzz.text import definitions
from ttools.fuzz.trial import Failure, Verdict
from ttools.fuzz.variants import BY_NAME, VARIANTS, Variant, usable
from ttools.fuzz.workers import Work, verdicts, verdicts_here

#: Scripts that launch the kernels of packages.
_PACKAGES = Path(__file__).parent / "packages"


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign that the command line requests."""
    options = _parser().parse_args(arguments)
    work = _work(options)
    if options.print and work.script:
        print(_mutant_text(options, work))
        return 0
    if options.print:
        print(definitions(generate(options.seed or 0, work.features)))
        return 0
    first = _first_seed(options)
    print(f"seeds from {first} on", flush=True)
    command = " ".join(
        ["python -m tools.fuzz", *(sys.argv[1:] if arguments is None else arguments)]
    )
    campaign = Campaign(command=command, cpu=options.cpu)
    results = options.results.open("a") if options.results else None
    seeds = _seeds(options, first)
    run = verdicts_here(seeds, work) if options.in_process else None
    with ticking() as tick:
        for verdict in run or verdicts(seeds, work, options.processes):
            campaign.add(verdict)
            tick(_state(campaign, options))
            if results:
                results.write(json.dumps(as_json(verdict)) + "\n")
                results.flush()
            _tell(verdict, options)
    if not work.script:  # failing mutants are already minimal
        _shrink(campaign, work, options)
    report = markdown(campaign)
    print(report)
    if options.markdown:
        options.markdown.write_text(report)
    return 1 if campaign.failed else 0


def _state(campaign: Campaign, options: argparse.Namespace) -> State:
    most = options.kernels or (None if options.seconds else 100)
    facts = (f"{len(campaign.failures)} failed",)
    return State(what="fuzzing", done=campaign.kernels, total=most, unit="kernels", facts=facts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="one kernel, in all variants")
    parser.add_argument("--print", action="store_true", help="only print that kernel")
    parser.add_argument("--first", type=int, default=0, help="first seed of the campaign")
    parser.add_argument("--new", action="store_true", help="take the first seed from the clock")
    parser.add_argument("--kernels", type=int, help="number of kernels, 100 by default")
    parser.add_argument("--seconds", type=float, help="duration, instead of a number of kernels")
    parser.add_argument("--processes", type=int, default=1, help="number of worker processes")
    parser.add_argument("--in-process", action="store_true", help="run kernels in this process")
    parser.add_argument("--cpu", default="", help="TTOOLS_CPU for variants that set no CPU")
    parser.add_argument("--variants", type=_variants, help=", ".join(BY_NAME))
    parser.add_argument("--per-kernel", type=int, default=4, help="variants for each kernel")
    parser.add_argument(
        "--mutate",
        type=_script_of,
        help=f"a script that launches kernels, or {', '.join(_packages())}",
    )
    parser.add_argument("--gpu", action="store_true", help="compare with the GPU, too")
    parser.add_argument("--device", default="cuda", help="device of the tensors, with --gpu")
    parser.add_argument("--shrink", type=float, default=60, help="seconds per cause; 0 for none")
    parser.add_argument("--most", type=int, default=5, help="number of causes to shrink")
    parser.add_argument("--results", type=Path, help="JSON lines, one for each kernel")
    parser.add_argument("--scripts", type=Path, help="folder for the scripts of failures")
    parser.add_argument("--markdown", type=Path, help="the campaign's table")
    return parser


def _variants(text: str) -> list[Variant]:
    unknown = [name for name in text.split(",") if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no variant {unknown[0]!r}")
    return [BY_NAME[name] for name in text.split(",")]


def _packages() -> list[str]:
    """Return the names of packages for which there is a script that launches their kernels."""
    return sorted(path.stem for path in _PACKAGES.glob("[a-z]*.py"))


def _script_of(text: str) -> str:
    """Return the path of a script, given its path or the name of a package."""
    script = _PACKAGES / f"{text}.py"
    path = script if text in _packages() else Path(text)
    if not path.is_file():
        names = ", ".join(_packages())
        raise argparse.ArgumentTypeError(f"{text!r} is neither a script nor one of {names}")
    return str(path.resolve())


def _mutant_text(options: argparse.Namespace, work: Work) -> str:
    with tempfile.TemporaryDirectory(prefix="ttools-fuzz-") as folder:
        trial = MutantTrial(capture_script(work.script), Path(folder), work.cpu)
        return trial.text(options.seed or 0)


def _work(options: argparse.Namespace) -> Work:
    if options.gpu:
        return Work(variants=("native",), features=Features(gpu=True), device=options.device)
    found = usable(options.variants or VARIANTS)
    if options.mutate:
        found = [v for v in found if v.engine == "native" and not v.short]
    names = tuple(variant.name for variant in found if variant.name != "native")
    count = options.per_kernel if options.seed is None else len(names) + 1
    return Work(variants=names, per_kernel=count, cpu=options.cpu, script=options.mutate or "")


def _first_seed(options: argparse.Namespace) -> int:
    if options.seed is not None:
        return int(options.seed)
    return time.time_ns() // 1_000_000 % 10**9 if options.new else int(options.first)


def _seeds(options: argparse.Namespace, first: int) -> Iterator[int]:
    if options.seed is not None:
        yield first
        return
    most = options.kernels if options.kernels or options.seconds else 100
    end = None if options.seconds is None else time.monotonic() + options.seconds
    for count, seed in enumerate(itertools.count(first)):
        if (most is not None and count >= most) or (end is not None and time.monotonic() > end):
            return
        yield seed


def _tell(verdict: Verdict, options: argparse.Namespace) -> None:
    for failure in verdict.failures:
        if failure.kind != "rejected" or options.seed is not None:
            print(f"--- seed {failure.seed}, {failure.variant}: {failure.kind}")
            print("\n".join(failure.message.splitlines()[:12]), flush=True)


def _shrink(campaign: Campaign, work: Work, options: argparse.Namespace) -> None:
    """Print the smallest script of each cause, or of each GPU difference."""
    for failure in campaign.causes(options.most) if options.shrink else ():
        text = _script(failure, work, options.shrink)
        print(f"=== {failure.kind}, seed {failure.seed}, {failure.variant}\n{text}", flush=True)
        if options.scripts:
            options.scripts.mkdir(parents=True, exist_ok=True)
            name = f"{failure.kind.replace(' ', '_')}_{failure.seed}.py"
            note = "".join(f"# {line}\n" for line in failure.message.splitlines()[:4])
            (options.scripts / name).write_text(note + text)


def _script(failure: Failure, work: Work, seconds: float) -> str:
    try:
        return smallest_script(failure, work, seconds)
    except Exception as error:  # noqa: BLE001 - the kernel is then reported without shrinking
        whole = script(generate(failure.seed, work.features), BY_NAME["native"], cpu=work.cpu)
        return f"# shrinking failed: {type(error).__name__}: {error}\n{whole}"


if __name__ == "__main__":
    sys.exit(main())
