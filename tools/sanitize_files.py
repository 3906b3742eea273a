"""Runs `ttools sanitize` on each script of a folder, and compares findings with a reviewed list.

    python -m tools.sanitize_files FOLDER [--option=--device-map=cuda=cpu] [--reviewed FILE]

Each script runs in a process of its own. The reviewed list (`tools/reviewed`) contains the verdicts
of people on findings. Exit status: 0 if every script ran to its end or is known not to, every
finding is in the list, and all defects that third parties have listed were found; else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.harness import ROOT, end_process, ending, markdown
from tools.libraries.outcomes import first_line

#: Seconds between asking a script to exit and killing it.
_GRACE_SECONDS = 5.0
_OUR_LINES = ("note:", "warning:", "ttools:")


@dataclass(frozen=True)
class Verdict:
    """The verdict of a person on a finding.

    Attributes:
        file: Name of the script.
        kind: Kind of the finding; `*` for any; `script` for the reason why a script cannot run.
        kernel: Kernel of the finding; `*` for any.
        line: Line of the finding; 0 for any.
        verdict: For findings: `real`, `right` (a correct warning or note) or `false`. For scripts:
            `upstream`, if the script does not run on a machine with a GPU, either.
        reason: Explanation in one sentence.
        listed: If True, third parties have listed this defect of the script, so it must be found.
    """

    file: str
    kind: str
    verdict: str
    reason: str
    kernel: str = "*"
    line: int = 0
    listed: bool = False

    def covers(self, file: str, finding: dict[str, Any]) -> bool:
        """Return whether the verdict applies to a finding of a script."""
        line = (finding["location"] or {}).get("line")
        return (
            self.file == file
            and self.kind in ("*", finding["kind"])
            and self.kernel in ("*", finding["kernel"])
            and self.line in (0, line)
        )


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The result of a script.

    Attributes:
        file: Name of the script.
        ended: `ok`, `exit N`, `timeout`, `crash SIGNAL`, or `ttools failed`.
        seconds: Duration of the process, including start and compilation.
        plain_seconds: Duration of `ttools interpret`; None if it was not run.
        launches: Number of launches.
        findings: Findings in the format of the schema `ttools.report/1`.
        said: Last lines of standard error if the script did not exit normally.
    """

    file: str
    ended: str
    seconds: float
    plain_seconds: float | None = None
    launches: int = 0
    findings: Sequence[dict[str, Any]] = ()
    said: str = ""

    @property
    def kinds(self) -> str:
        """Return the number of findings by kind, errors first."""
        counts = Counter((f["severity"], f["kind"]) for f in self.findings)
        order = ("error", "warning", "note")
        ranked = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return ", ".join(
            f"{count} {kind}" + ("" if severity == "error" else f" ({severity})")
            for (severity, kind), count in ranked
        )


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.sanitize_files",
        description="Sanitize each script of a folder in a process of its own.",
    )
    parser.add_argument("targets", nargs="+", type=Path, metavar="FOLDER|SCRIPT")
    parser.add_argument("--pattern", default="*.py", help="scripts of a folder (default *.py)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for a script (120)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="OPTION", help="for `ttools sanitize`"
    )
    parser.add_argument("--compare", action="store_true", help="also time `ttools interpret`")
    parser.add_argument("--reviewed", type=Path, metavar="FILE", help="verdicts, as JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything, as JSON")
    return parser.parse_args(words)


def scripts_of(targets: Sequence[Path], pattern: str) -> list[Path]:
    """Return the given scripts, and the sorted scripts of the given folders."""
    scripts: list[Path] = []
    for target in targets:
        scripts += sorted(target.glob(pattern)) if target.is_dir() else [target]
    return scripts


def read_verdicts(path: Path | None) -> list[Verdict]:
    """Return the reviewed list: a JSON array of objects with the fields of `Verdict`."""
    return [] if path is None else [Verdict(**entry) for entry in json.loads(path.read_text())]


def sanitize_script(script: Path, options: argparse.Namespace) -> Ran:
    """Run one script under the sanitizer, in an empty folder."""
    plain = None
    with tempfile.TemporaryDirectory() as folder:
        if options.compare:
            words = ["interpret", *_shared(options.option), str(script.resolve())]
            _, plain, _ = _run(words, Path(folder), options.timeout)
        report = Path(folder) / "report.json"
        words = ["sanitize", "--format", "json", "--output", str(report), *options.option]
        ended, seconds, said = _run([*words, str(script.resolve())], Path(folder), options.timeout)
        data = json.loads(report.read_text()) if report.exists() else {}
    if data and ended in ("ok", "exit 1"):
        status = data["script"]["exit_code"]
        ended = f"exit {status}" if status else "ok"
    elif ended == "exit 3":
        ended = "ttools failed"
    return Ran(
        file=script.name,
        ended=ended,
        seconds=round(seconds, 1),
        plain_seconds=None if plain is None else round(plain, 1),
        launches=sum(launch["count"] for launch in data.get("launches", ())),
        findings=data.get("findings", []),
        said="" if ended == "ok" else said,
    )


def _shared(options: Sequence[str]) -> list[str]:
    """Return the options that `ttools interpret` has in common with `ttools sanitize`."""
    shared = ("--device-map", "--threads", "--only", "--first-config")
    return [option for option in options if option.partition("=")[0] in shared]


def _run(words: Sequence[str], folder: Path, timeout: float) -> tuple[str, float, str]:
    """Return how a command ended, its seconds, and the last lines of its standard error."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "MPLBACKEND": "Agg"}
    log = folder / "stderr.log"
    begin = time.perf_counter()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "ttools_entry", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
            ended = "ok" if code == 0 else f"exit {code}"
            if code < 0:
                ended = f"crash {ending(code)}"
        except subprocess.TimeoutExpired:
            ended = "timeout"
            end_process(process, grace=_GRACE_SECONDS)
    lines = log.read_text(errors="replace").strip().splitlines()
    return ended, time.perf_counter() - begin, "\n".join(lines[-12:])


def unreviewed(ran: Ran, verdicts: Sequence[Verdict]) -> Iterator[dict[str, Any]]:
    """Yield the findings of a script that no verdict covers, or whose verdict is `false`."""
    for finding in ran.findings:
        covering = [v for v in verdicts if v.covers(ran.file, finding)]
        if not covering or covering[0].verdict == "false":
            yield finding


def failed(ran: Ran, verdicts: Sequence[Verdict]) -> bool:
    """Return whether a script did not run to its end, and no verdict explains it."""
    explained = any(v.file == ran.file and v.kind == "script" for v in verdicts)
    return ran.ended != "ok" and not explained


def listed(results: Sequence[Ran], verdicts: Sequence[Verdict]) -> dict[str, bool]:
    """Map each script with a defect that third parties have listed to whether it was found."""
    found_by_file: dict[str, bool] = {}
    for ran in results:
        mine = [v for v in verdicts if v.listed and v.file == ran.file]
        if mine:
            found_by_file[ran.file] = any(v.covers(ran.file, f) for v in mine for f in ran.findings)
    return found_by_file


def describe(finding: dict[str, Any]) -> str:
    """Return a finding as one line of text."""
    where = finding["location"] or {}
    place = f"{Path(where.get('file') or '?').name}:{where.get('line')}"
    text = f"{finding['severity']}[{finding['kind']}] {place} `{finding['kernel']}`"
    return f"{text}: {finding['message']}; {finding['count']:,} x"


def table(results: Sequence[Ran], verdicts: Sequence[Verdict]) -> str:
    """Return a table with one row for each script."""
    rows = []
    for ran in results:
        named = [v for v in verdicts if any(v.covers(ran.file, f) for f in ran.findings)]
        new = len(list(unreviewed(ran, verdicts)))
        counts = Counter(v.verdict for v in named)
        verdict = ", ".join([*counts, *([f"{new} to review"] if new else [])])
        times = f"{ran.seconds:.1f}" + (f" ({ran.plain_seconds:.1f})" if ran.plain_seconds else "")
        rows.append((ran.file, ran.ended, str(ran.launches), times, ran.kinds, verdict))
    return markdown(("file", "ended", "launches", "seconds", "findings", "verdict"), rows)


def why(ran: Ran) -> str:
    """Return the last line of standard error that is not from ttools, to explain a failure."""
    lines = [line for line in ran.said.splitlines() if not line.startswith(_OUR_LINES)]
    return first_line(lines[-1] if lines else ran.ended)


def main(words: Sequence[str] | None = None) -> int:
    """Run the scripts and print the tables; return the exit status."""
    options = parse_arguments(words)
    verdicts = read_verdicts(options.reviewed)
    results: list[Ran] = []
    for script in scripts_of(options.targets, options.pattern):
        ran = sanitize_script(script, options)
        results.append(ran)
        print(f"{ran.file}: {ran.ended}, {ran.seconds} s, {ran.kinds or 'no finding'}", flush=True)
        if ran.ended != "ok":
            print(f"    {why(ran)}", flush=True)
        for finding in unreviewed(ran, verdicts):
            print(f"    {describe(finding)}", flush=True)
        if options.json:
            data = [vars(result) for result in results]
            options.json.write_text(json.dumps(data, indent=1) + "\n")
    print("\n" + table(results, verdicts))
    print("\n" + summary(results, verdicts))
    missed = [file for file, found in listed(results, verdicts).items() if not found]
    new = [finding for ran in results for finding in unreviewed(ran, verdicts)]
    return int(bool(new or missed or any(failed(ran, verdicts) for ran in results)))


def summary(results: Sequence[Ran], verdicts: Sequence[Verdict]) -> str:
    """Return the results of all scripts in a few lines."""
    new = sum(len(list(unreviewed(ran, verdicts))) for ran in results)
    ended = [ran for ran in results if ran.ended == "ok"]
    unknown = [ran.file for ran in results if failed(ran, verdicts)]
    launches = sum(ran.launches for ran in results)
    accounted = len(results) - len(ended) - len(unknown)
    lines = [
        f"{len(results)} scripts, {launches:,} launches; {len(ended)} ran, "
        + f"{accounted} are known not to, {len(unknown)} failed {' '.join(unknown)}".rstrip(),
        f"findings in {sum(bool(ran.findings) for ran in results)} scripts; {new} to review",
    ]
    found_by_file = listed(results, verdicts)
    if found_by_file:
        missed = [file for file, found in found_by_file.items() if not found]
        lines.append(f"listed: {len(found_by_file) - len(missed)} of {len(found_by_file)} found")
        lines += [f"not found: {file}" for file in missed]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
