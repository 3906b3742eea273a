"""Verifies candidates of libraries, and counts those that are verified by replay.

    python -m tools.libraries.verified run SET... --output FILE     # SET: liger, a folder, ...
    python -m tools.libraries.verified summary FILE...

A set is `liger`, `flag-gems` (with `GEMS_VENDOR=nvidia`), `examples`, or a folder of files as for
`ttools verify --batch`. Each candidate is verified in a fork of one process, with the default
options. For each, a line of JSON is added to the output file; candidates that the file already
contains are skipped.

The summary compares the verdicts with `FINDINGS`: the failures that were examined and are real. Any
other failure is a *false failure* until it has been examined. Folders of files whose `EXPECT` is a
label (`verdict` and `classes`) need no entry.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.harness import ROOT
from ttools.core.device_map.mapping import end_map_for_good, map_for_good
from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, WorkerGoneError
from ttools.core.process.worker import Limits, fork_worker
from ttools.verifier.batch.folder import is_case, no_verdict
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run.processes import Subject
from ttools.verifier.run.verification_run import VerificationRun
from ttools.verifier.workers.warm_up import warm_up


@dataclass(frozen=True, kw_only=True)
class OperatorSet:
    """Candidates in one file of the tests.

    Attributes:
        file: File of the candidates.
        inputs: Name of the function that draws the inputs, for each candidate by name.
        references: File of the references and inputs; empty if it is `file`.
        suffix: Suffix of the names of references.
        module: Module of the library, which is imported once before processes are forked.
        is_mapped: If True, the module is imported while the CPU stands in for a GPU.
    """

    file: str
    inputs: dict[str, str]
    references: str = ""
    suffix: str = "_reference"
    module: str = "torch"
    is_mapped: bool = False


SETS = {
    "liger": OperatorSet(
        file="tests/libraries/verified_liger.py",
        inputs={
            "softmax": "rows",
            "swiglu": "pairs",
            "geglu": "pairs",
            "rms_norm": "weighted",
            "layer_norm": "biased",
            "fused_add_rms_norm": "residual",
            "group_norm": "images",
            "dyt": "tanh_inputs",
            "rope": "heads",
            "cross_entropy": "labelled",
            "tvd": "distributions",
            "jsd": "log_distributions",
            "kl_div": "log_distributions",
        },
        module="liger_kernel.ops.softmax",
    ),
    "flag-gems": OperatorSet(
        file="tests/libraries/verified_flag_gems.py",
        references="tests/libraries/flag_gems_references.py",
        suffix="",
        inputs={
            **dict.fromkeys(["softmax", "log_softmax", "gelu", "cumsum", "argmax", "amax"], "rows"),
            **dict.fromkeys(["sum_dim", "mean_dim", "var_mean"], "rows"),
            "topk": "top",
            **dict.fromkeys(["layer_norm", "rms_norm"], "norms"),
            **dict.fromkeys(["mm", "addmm"], "products"),
            "embedding": "tables",
            "cross_entropy_loss": "classes",
        },
        module="flag_gems",
        is_mapped=True,
    ),
    "examples": OperatorSet(
        file="tests/verifier/verified_examples.py",
        inputs={
            **dict.fromkeys(["softmax", "row_sum"], "rows"),
            "transpose": "fours",
            "add": "pairs",
            "add_one": "small",
            "matmul": "factors",
            "layer_norm": "normalised",
            "attention": "heads",
        },
    ),
}

#: Failures that were examined and are real, by set (or folder) and candidate: their classes. The
#: reasons are in docs/reference/libraries.md.
FINDINGS: dict[str, dict[str, set[str]]] = {
    "liger": {
        **{key: {"not_computed_by_kernel"} for key in ["tvd", "jsd", "kl_div"]},
        **{key: {"input_modified", "layout"} for key in ["swiglu", "geglu", "cross_entropy"]},
        "rope": {"race", "input_modified", "layout"},
        "group_norm": {"wrong_values"},
    },
    "flag-gems": {
        "softmax": {"wrong_values"},
        "topk": {"memory", "wrong_values"},
        "mm": {"memory", "race"},
        "gelu": {"exception"},
    },
    "gpuemu": {
        "gelu_triton": {"exception"},
        **{key: {"wrong_values"} for key in ["relu_triton", "rmsnorm_triton", "tanh_triton"]},
        **{
            f"{name}_triton_buggy": {"wrong_values", "exception"}
            for name in (
                *("attention", "flash_attention", "gelu", "l2norm", "leaky_relu", "matmul"),
                *("rmsnorm", "silu", "softmax"),
            )
        },
    },
    "tritonbench": {
        "log_softmax": {"wrong_values"},
        "l2_norm_triton1": {"memory", "unwritten", "wrong_values"},
        "layer_norm_triton": {"unwritten", "wrong_values"},
    },
    "kernelbench": {
        f"p{problem}": classes
        for classes, problems in (
            ({"wrong_values"}, "1 19 22 23 26 27 28 31 32 38 49 51 52 53 88"),
            ({"memory"}, "2"),
            ({"unwritten"}, "4 12 39 48"),
            ({"exception"}, "24"),
            ({"stale_state"}, "37"),
            ({"layout"}, "94 95 96 98 100"),
        )
        for problem in problems.split()
    },
}
#: Options of `ttools verify` that make runs shorter.
LIMITS = {
    "cases": "maximum number of cases of a candidate",
    "shrink": "attempts to reduce the inputs of a failure",
    "all_sizes_seconds": "limit of the proofs for all sizes",
}


def candidates(name: str) -> Iterator[tuple[str, Subject, dict[str, Any]]]:
    """Yield name, functions and label (empty if none) of each candidate of a set or folder."""
    operators = SETS.get(name)
    if operators is not None:
        file = ROOT / operators.file
        references = ROOT / (operators.references or operators.file)
        for operator, inputs in operators.inputs.items():
            reference = f"{references}:{operator}{operators.suffix}"
            yield operator, Subject(f"{file}:{operator}", reference, f"{references}:{inputs}"), {}
        return
    for path in sorted(Path(name).resolve().glob("*.py")):
        if is_case(path):
            functions = (f"{path}:{role}" for role in ("candidate", "reference", "inputs"))
            yield path.stem, Subject(*functions), label_of(path)


def label_of(path: Path) -> dict[str, Any]:
    """Return the constant `EXPECT` of a file; empty if it has none."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXPECT":
            label: dict[str, Any] = ast.literal_eval(node.value)
            return label
    return {}


def verify_candidate(subject: Subject, options: VerifyOptions) -> dict[str, Any]:
    """Verify a candidate in a fork of this process; return the verification as data."""

    def serve(channel: Channel) -> None:
        try:
            verification = VerificationRun(subject, options).run()
        except TtoolsError as error:
            verification = no_verdict(str(error))
        channel.send(verification.as_dict())

    worker = fork_worker(serve, Limits())
    try:
        answer: dict[str, Any] = worker.receive()
    except WorkerGoneError as error:
        answer = no_verdict(f"during its verification, {error}").as_dict()
    finally:
        worker.end()
    return answer


def run(names: Iterable[str], output: Path, only: list[str], limits: VerifyOptions) -> None:
    """Verify the candidates of sets, and write a line for each."""
    lines = output.read_text("utf-8").splitlines() if output.is_file() else []
    finished = {(entry["set"], entry["name"]) for entry in map(json.loads, lines)}
    warm_up()
    for chosen in names:
        if chosen in SETS:
            if SETS[chosen].is_mapped:
                map_for_good()
            importlib.import_module(SETS[chosen].module)
        set_name = chosen if chosen in SETS else Path(chosen).resolve().name
        for name, subject, label in candidates(chosen):
            if (set_name, name) in finished or (only and name not in only):
                continue
            verification = verify_candidate(subject, limits)
            entry = {"set": set_name, "name": name, "label": label, **verification}
            with output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
            print(described(entry), flush=True)
        end_map_for_good()


def described(entry: dict[str, Any]) -> str:
    """Return one line about a candidate."""
    classes = ", ".join(failure["class"] for failure in entry["failures"])
    replay = entry["replay"]
    why = "; ".join(replay["reasons"]) if entry["verdict"] == "pass" else ""
    kind = "replayed" if replay["verified"] else why
    detail = classes or (kind if entry["verdict"] == "pass" else entry["reason"])
    return f"{entry['set']}/{entry['name']}: {entry['verdict']}, {detail}, {entry['seconds']:.1f} s"


def is_right(entry: dict[str, Any]) -> bool:
    """Return whether a verdict agrees with the label or the examined findings."""
    classes = {failure["class"] for failure in entry["failures"]}
    label = entry["label"]
    if label:
        expected = set(label.get("classes", ())) if label["verdict"] == "fail" else set()
        return bool(classes & expected) if expected else entry["verdict"] == "pass"
    findings = FINDINGS.get(entry["set"], {})
    # Names of KernelBench's files begin with the number of the problem.
    name = entry["name"] if entry["name"] in findings else entry["name"].partition("_")[0]
    real = findings.get(name, set())
    return entry["verdict"] == "pass" if not real else bool(classes) and classes <= real


def summary(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return a row for each set, and one for all: counts, share of replays, median seconds."""
    rows = []
    for name in [*dict.fromkeys(entry["set"] for entry in entries), ""]:
        chosen = [entry for entry in entries if name in ("", entry["set"])]
        passes = [entry for entry in chosen if entry["verdict"] == "pass"]
        replayed = [entry for entry in passes if entry["replay"]["verified"]]
        wrong = [e for e in chosen if not is_right(e) and e["verdict"] == "fail"]
        share = f"{len(replayed) / len(passes):.0%}" if passes else ""
        middle = statistics.median(entry["seconds"] for entry in chosen)
        rows.append(
            (name or "all", len(chosen), sum(map(is_right, chosen)), len(passes), len(wrong),
             sum(entry["verdict"] == "inconclusive" for entry in chosen),
             f"{len(replayed)} ({share})", f"{middle:.1f}")
        )  # fmt: skip
    return rows


COLUMNS = (
    "set",
    "tried",
    "right",
    "passes",
    "false failures",
    "no verdict",
    "replayed",
    "median s",
)


def show(files: Iterable[Path]) -> int:
    """Print the summary of files, and every candidate that needs attention.

    Returns:
        The exit status: 1 if a verdict does not agree with the label or the findings.
    """
    entries = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for row in summary(entries):
        print("| " + " | ".join(map(str, row)) + " |")
    reasons = Counter(
        reason
        for entry in entries
        if entry["verdict"] == "pass"
        for reason in entry["replay"]["reasons"]
    )
    for reason, count in reasons.most_common():
        print(f"{count} not replayed: {reason}")
    wrong = [entry for entry in entries if not is_right(entry)]
    for entry in wrong:
        print(f"not as expected: {described(entry)}")
        for failure in entry["failures"]:
            print(f"    {failure['class']}: {failure['detail']}")
    return 1 if wrong else 0


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(prog="python -m tools.libraries.verified", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="verify the candidates of sets")
    running.add_argument("sets", nargs="+", metavar="SET", help=f"{', '.join(SETS)}, or a folder")
    running.add_argument("--output", type=Path, required=True, metavar="FILE")
    running.add_argument("--only", action="append", default=[], metavar="NAME")
    running.add_argument("--seconds", type=float, default=600.0, help="limit for a candidate")
    for name, text in LIMITS.items():
        option = f"--{name.replace('_', '-')}"
        default = getattr(VerifyOptions, name)
        running.add_argument(option, type=int, default=default, metavar="N", help=text)
    shown = commands.add_parser("summary", help="count the verdicts")
    shown.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.command == "summary":
        sys.exit(show(options.files))
    # FlagGems keeps tuned configurations in a database; its folder is chosen during the import.
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    os.environ.setdefault("FLAGGEMS_DB_URL", "sqlite:///tuned.db")
    limits = VerifyOptions(
        seconds=options.seconds, **{name: getattr(options, name) for name in LIMITS}
    )
    run(options.sets, options.output, options.only, limits)


if __name__ == "__main__":
    main()
