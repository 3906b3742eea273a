"""Proofs of libraries' launches for all sizes: `python -m tools.libraries sizes`.

Each script runs in a process of its own (`sizes_worker.py`) with a time limit. This module selects
the scripts and makes the table.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tools.harness import ROOT, end_process, markdown
from tools.libraries.sampling import DONE, REPORT, SELECTION
from tools.libraries.suites import SUITES, Suite

#: Libraries whose scripts are the files of a folder.
FOLDERS = {"tritonbench": "data/TritonBench_G_v1"}
#: Libraries whose scripts are the test files of one or more suites.
TESTS = {"liger": ("liger", "liger-new"), "fla": ("fla",)}
#: Verdicts on launches. `single size`: no size of the launch can vary, so the proof covers this
#: launch only.
VERDICTS = ("proved", "assumed", "single size", "fails", "not proved")
_FORMS = {
    r"is not shown to be one of": "an element is not shown to be in its tensor",
    r"is not shown to be between": "an integer is not shown to stay in its type",
    r"two programs are not shown": "programs are not shown to be apart",
    r"lanes are not shown": "lanes are not shown to be apart",
    r"depends on unknown data": "data decide",
    r"takes this path through host code": "a region of sizes is not shown to be empty",
    r"paths for these sizes": "too many paths through host code",
}


@dataclass(frozen=True, kw_only=True)
class SizesOptions:
    """Selection and limits of a run.

    Attributes:
        checkout: Checkout of the library.
        only: Names of scripts; all if empty.
        sample: Number of scripts that are drawn at random; 0 for all.
        seed: Seed of the sample and of the attacks.
        timeout: Time limit for a script in seconds; its launches until then are proved.
        seconds: Time limit for the proof of a launch.
        patience: Seconds for a script and its proofs, after which the process is killed.
        memory: Bytes that the tensors of a launch may take, which limits the sizes.
        attacks: Number of launches at random sizes that try to refute each proof.
        attack_seconds: Time limit in seconds for the attempts to refute a proof.
    """

    checkout: Path
    only: Sequence[str] = ()
    sample: int = 0
    seed: int = 0
    timeout: float = 60.0
    seconds: float = 25.0
    patience: float = 600.0
    memory: int = 1 << 31
    attacks: int = 0
    attack_seconds: float = 60.0


Row = dict[str, Any]


def scripts(library: str, options: SizesOptions) -> list[tuple[Path, Suite | None]]:
    """Return the scripts of a library, each with the suite that it belongs to."""
    files: list[tuple[Path, Suite | None]]
    if library in FOLDERS:
        folder = options.checkout / FOLDERS[library]
        files = [(file, None) for file in sorted(folder.glob("*.py"))]
    else:
        suites = [SUITES[name] for name in TESTS[library]]
        paths = [(path, suite) for s in suites for _, path in s.paths(options.checkout, ())
                 for suite in (s,)]  # fmt: skip
        files = list(dict(paths).items())
    if options.only:
        files = [pair for pair in files if pair[0].stem in options.only]
    if options.sample:
        random.Random(options.seed).shuffle(files)
        files = files[: options.sample]
    return files


def run(library: str, options: SizesOptions) -> Iterator[list[Row]]:
    """Yield the launches of each script as rows; the first row says how the script ended."""
    for script, suite in scripts(library, options):
        with tempfile.TemporaryDirectory() as folder:
            yield _run_one(script, suite, options, Path(folder))


def _run_one(script: Path, suite: Suite | None, options: SizesOptions, folder: Path) -> list[Row]:
    out = folder / "rows"
    command = [sys.executable, "-m", "tools.libraries.sizes_worker", "--out", str(out)]
    for name in ("timeout", "seconds", "memory", "attacks", "attack_seconds", "seed"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    path = [str(ROOT), str(options.checkout), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
    if suite is None:
        command += ["--", str(script)]
    else:
        selection = replace(suite.selection, sample=1, smallest=True, seed=options.seed)
        environment |= {
            **suite.environment,
            REPORT: str(folder / "report"),
            DONE: str(folder / "done"),
            SELECTION: json.dumps(asdict(selection)),
        }
        (folder / "done").write_text("[]")
        (folder / "report").write_text("")
        command += ["--module", "--", "pytest", str(script), "-q", *suite.arguments]
        command += ["-p", "tools.libraries.sampling", "-p", "no:cacheprovider"]
        command += ["-o", "log_cli=false", "--continue-on-collection-errors"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stopped = False
        try:
            process.wait(options.patience)
        except subprocess.TimeoutExpired:
            stopped = True
        finally:
            end_process(process)
    rows: list[Row] = []
    if out.exists():
        rows = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
    if not rows:
        lines = (folder / "log").read_text(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        rows = [{"ended": f"no launch was seen{last}", "left_out": []}]
    rows[0] |= {"script": script.stem, "stopped": stopped}
    return rows


def reason_form(reason: str) -> str:
    """Return the kind of a reason, without the details of one kernel."""
    late = "no time left: " if reason.startswith("the time limit of ") else ""
    for pattern, form in _FORMS.items():
        if re.search(pattern, reason):
            return late + form
    return late + re.sub(r"\d[\d,]*", "N", reason.splitlines()[0])[:90]


def table(results: Mapping[str, Sequence[Sequence[Row]]]) -> str:
    """Return a table of the verdicts for the launches of each library."""
    header = (
        "library",
        "scripts",
        "with launches",
        "launches",
        *VERDICTS,
        "CPU time",
        "refutation attempts",
    )
    lines = []
    for library, of_scripts in results.items():
        rows = [row for script in of_scripts for row in script[1:]]
        verdicts = Counter(row["verdict"] for row in rows)
        attacks = [row["attack"] for row in rows if "attack" in row]
        tried = sum(a["made"] + a["computed"] for a in attacks)
        refuted = sum(bool(a["refuted"]) for a in attacks)
        launching = sum(len(script) > 1 for script in of_scripts)
        lines.append(
            (
                *(library, str(len(of_scripts)), str(launching), str(len(rows))),
                *(str(verdicts[name]) for name in VERDICTS),
                f"{sum(row['cpu'] for row in rows):.0f} s",
                f"{tried:,} on {len(attacks)} proofs, {refuted} refuted",
            )
        )
    return markdown(header, lines)


def reasons(of_scripts: Sequence[Sequence[Row]], most: int = 8) -> str:
    """Return a table of the reasons why launches are not proved, with the number of launches."""
    counts: Counter[str] = Counter()
    for script in of_scripts:
        for row in script[1:]:
            if row["verdict"] == "not proved":
                counts.update({reason_form(entry["reason"]) for entry in row["reasons"]})
    rows = [(reason, str(count)) for reason, count in counts.most_common(most)]
    return markdown(("reason", "launches"), rows)


def show(script: Sequence[Row]) -> Iterator[str]:
    """Yield the lines to print for a script."""
    first = script[0]
    stopped = ", its proofs stopped" if first["stopped"] else ""
    yield f"{first['script']}: {first['ended']}{stopped}"
    for reason in first["left_out"]:
        yield f"  left out: {reason}"
    for row in script[1:]:
        yield f"  {row['verdict']}: {row['kernel']} {row['sizes']} ({row['cpu']} s)"
        for defect in row["defects"]:
            witness = defect["witness"] or "no launch made"
            yield f"    {defect['kind']} at {defect['at']}: {defect['sizes']}, {witness}"
        for text in row.get("attack", {}).get("refuted", ()):
            yield f"    REFUTED: {text}"
        if row["verdict"] == "not proved":
            for reason in dict.fromkeys(reason_form(entry["reason"]) for entry in row["reasons"]):
                yield f"    {reason}"


def is_refuted(script: Sequence[Row]) -> bool:
    """Return whether an attack has refuted a proof."""
    return any(row.get("attack", {}).get("refuted") for row in script[1:])
