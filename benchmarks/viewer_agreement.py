"""Proton's own viewer and `ttools profile view` on the same files.

    python benchmarks/viewer_agreement.py make FOLDER    # on a GPU: sessions beside one of ours
    python benchmarks/viewer_agreement.py judge FOLDER   # anywhere, with llnl-hatchet installed

`judge` adds files with little in them, broken ones and other forms, then tells of each file whether
either viewer opens it, and whether both tell the same time for every node.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

# mypy: disable-error-code="no-untyped-def,untyped-decorator"


def _told(grid, metadata, arguments):
    return {"name": "told_kernel", "flops32": arguments["n"], "bytes": 8 * arguments["n"]}


@triton.jit(launch_metadata=_told)
def told_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1.0, mask=offs < n)


def program() -> None:
    import triton.profiler as proton

    x = torch.zeros(1 << 20, device="cuda")
    with proton.scope("outer", metrics={"steps": 3.0}):
        for _ in range(3):
            told_kernel[(1024,)](x, x.numel(), BLOCK=1024)
        with proton.scope("inner"):
            torch.mm(x.view(1024, 1024), x.view(1024, 1024))
    told_kernel[(1024,)](x, x.numel(), BLOCK=1024)
    torch.cuda.synchronize()


#: By file: what the user's session is started with.
SESSIONS: dict[str, dict[str, Any]] = {
    "scopes": {},
    "hook": {"hook": "triton"},
    "python": {"context": "python"},
    "trace": {"data": "trace"},
}


def make(folder: Path) -> None:
    import triton.profiler as proton

    from ttools.profiler import profile

    folder.mkdir(parents=True, exist_ok=True)
    program()  # compiled and warm
    proton.start(str(folder / "alone"))
    program()
    proton.finalize()
    for name, options in SESSIONS.items():
        proton.start(str(folder / name), **options)
        with profile():
            program()
        proton.finalize()
    with profile(data="tree", hook="triton", proton_file=folder / "ours.hatchet"):
        program()


def add_strange(folder: Path) -> None:
    """Files that a crashed, an idle or another kind of session leaves behind."""
    node: Mapping[str, Any] = {"frame": {"name": "ROOT", "type": "function"}, "metrics": {}}
    kernel = {
        "frame": {"name": "a", "type": "function"},
        "metrics": {"time (ns)": 1000, "count": 1, "device_id": "0", "device_type": "CUDA"},
        "children": [],
    }
    peaks = {"CUDA": {"0": {"arch": "90", "bus_width": 1, "memory_clock_rate": 1, "clock_rate": 1}}}
    whole = {**node, "children": [kernel]}
    texts = {
        "idle": json.dumps([{**node, "children": []}, {}]),
        "empty": "",
        "cut": json.dumps([whole, peaks])[:80],
        "no_devices": json.dumps([whole]),
        "two_roots": json.dumps([whole, whole, peaks]),
        "no_metrics": json.dumps([{"frame": {"name": "ROOT"}, "children": []}]),
    }
    for name, text in texts.items():
        (folder / f"{name}.hatchet").write_text(text)


def judge(folder: Path) -> None:
    add_strange(folder)
    print("triton", triton.__version__)
    print("| file | Proton's viewer | `ttools profile view` | times |")
    print("|---|---|---|---|")
    for path in sorted(p for p in folder.iterdir() if "." in p.name):
        stock = ["-m", "triton.profiler.viewer", "-m", "time/ns", str(path)]
        own = [
            "-m",
            "ttools_entry",
            "profile",
            "view",
            "--format",
            "json",
            "-m",
            "time/ns",
            str(path),
        ]
        runs = [
            subprocess.run([sys.executable, *c], capture_output=True, text=True)
            for c in (stock, own)
        ]
        told = [_outcome(run) for run in runs]
        times = ""
        if not any(run.returncode for run in runs):
            a, b = _of_stock(runs[0].stdout), _of_ours(runs[1].stdout)
            times = f"{len(a)} equal" if a == b else f"differ: {a - b} against {b - a}"
        print(f"| {path.name} | {told[0]} | {told[1]} | {times} |")


def _outcome(run: subprocess.CompletedProcess[str]) -> str:
    if not run.returncode:
        return "shows it"
    last = (run.stderr.strip().splitlines() or [""])[-1]
    return f"exit {run.returncode}: {last[:110]}"


def _of_stock(text: str) -> Counter[tuple[str, int]]:
    """Name and nanoseconds of each row of a tree: `├─ 12.000 name`."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    rows = re.findall(r"^[ │├└─]*([\d.]+|nan) (.+?)\s*$", plain, re.MULTILINE)
    return Counter((name, round(float(value))) for value, name in rows if value != "nan")


def _of_ours(text: str) -> Counter[tuple[str, int]]:
    rows = json.loads(text)["rows"]
    return Counter(
        (row["path"][-1], round(row["values"][0][0]))
        for row in rows
        if row["values"][0][0] is not None
    )


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "judge"):
        sys.exit(__doc__)
    {"make": make, "judge": judge}[sys.argv[1]](Path(sys.argv[2]))
