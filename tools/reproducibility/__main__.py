"""The command line of the comparison.

Exit status: 0 if no pair that is called equal differs on the GPU, 1 if one does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from tools.harness import Worker, requests, run_cases, versions_and_machine
from tools.reproducibility import held_out, kernels
from tools.reproducibility.cases import Case
from tools.reproducibility.pairs import TARGET, observations, verdicts
from tools.reproducibility.report import table, unsound

GROUPS: Mapping[str, Mapping[str, Case]] = {
    "written before": kernels.CASES,
    "held out": held_out.CASES,
}
#: Number of processes that use the GPU at the same time.
_GPU_JOBS = 4
#: Seconds that one part of a case may take.
_CASE_SECONDS = 300.0
application = typer.Typer(add_completion=False)


def _cases() -> dict[str, tuple[str, Case]]:
    return {name: (group, case) for group, own in GROUPS.items() for name, case in own.items()}


@application.command()
def worker() -> None:
    """Answer the requests of `run`."""
    waiting, send = requests()
    for request in waiting:
        _, case = _cases()[request["case"]]
        try:
            if request["part"] == "verdicts":
                send({"verdicts": verdicts(case)})
            else:
                draws = range(request["first"], request["first"] + request["draws"])
                send({"observations": observations(case, draws)})
        except Exception as error:  # noqa: BLE001 - kernels may fail in any way
            send({"error": f"{type(error).__name__}: {error}"[:2000]})


@application.command()
def run(
    out: Annotated[Path, typer.Argument(help="JSON; parts that it contains are not run again.")],
    seconds: Annotated[float, typer.Option(help="Time limit; later cases are left out.")] = 540,
    jobs: Annotated[int, typer.Option(help="Processes that compute verdicts.")] = 1,
    draws: Annotated[int, typer.Option(help="Random inputs of each pair on the GPU.")] = 20,
    first: Annotated[int, typer.Option(help="Number of the first of these inputs.")] = 0,
    only: Annotated[str, typer.Option(help="Cases whose names contain this text.")] = "",
    gpu: Annotated[bool, typer.Option(help="Also run the pairs on the GPU.")] = True,
) -> None:
    """Determine the verdicts of all pairs, and run the pairs on a GPU."""
    deadline = time.monotonic() + seconds
    data: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"cases": {}}
    data["verdicts on"] = {**versions_and_machine(), "target": TARGET}
    if gpu:
        day = {"gpu": torch.cuda.get_device_name(), "draws": draws, "first": first}
        day["date"] = f"{date.today()}"
        data["observations on"] = {**versions_and_machine(), **day}
    lock = threading.Lock()
    parts = {"verdicts": jobs, "observations": _GPU_JOBS if gpu else 0}

    def measure(part: str, process: Worker, name: str) -> None:
        left = min(_CASE_SECONDS, deadline - time.monotonic())
        if left < 1:
            return
        began = time.monotonic()
        answer = process.ask({"case": name, "part": part, "draws": draws, "first": first}, left)
        answer = {"error": process.why()} if answer is None else answer
        text = answer.get("error") or f"{time.monotonic() - began:.1f} s"
        typer.echo(f"{part} of {name}: {text}", err=True)
        with lock:
            own = data["cases"].setdefault(name, {"group": _cases()[name][0]})
            own.pop(f"error of {part}", None)
            own.update({f"error of {part}": text} if "error" in answer else answer)
            out.write_text(json.dumps(data, indent=1))

    with ThreadPoolExecutor(len(parts)) as pool:
        running = []
        for part, count in parts.items():
            names = [
                name
                for name in _cases()
                if only in name and part not in data["cases"].get(name, {})
            ]
            if count and names:
                start = partial(_start, part)
                running.append(pool.submit(run_cases, names, count, start, partial(measure, part)))
        for one in running:
            one.result()
    typer.echo(table(data))
    sys.exit(bool(unsound(data)))


def _start(part: str) -> Worker:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if part == "verdicts":
        environment["CUDA_VISIBLE_DEVICES"] = ""  # the CPU computes them
    command = [sys.executable, "-m", "tools.reproducibility", "worker"]
    return Worker(command, environment=environment)


@application.command()
def summary(file: Annotated[Path, typer.Argument(help="The JSON of `run`.")]) -> None:
    """Print the results as a table, and the pairs that were called equal and differ."""
    data = json.loads(file.read_text())
    typer.echo(table(data))
    for pair in unsound(data):
        typer.echo(f"called equal, but differs: {pair}")


if __name__ == "__main__":
    application()
