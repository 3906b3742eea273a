"""Records the output of compute-sanitizer for the kernels of `defects.py`; needs a GPU.

`python tests/sanitizer/gpu/record.py FOLDER` writes a folder per case with the report, the log of
launches and the TTIR of the kernels; `test_recorded.py` reads them. Only the first errors of each
place are kept. `{here}` replaces the path of this folder, and `{triton}` that of Triton.
"""

from __future__ import annotations

import json
import shutil
import sys
from bisect import bisect_right
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import triton

from ttools.core.process.script import Target
from ttools.sanitizer.gpu.launch_log import LOG, REPORT
from ttools.sanitizer.gpu.tool import find_tool
from ttools.sanitizer.gpu.tool_run import run_tool
from ttools.sanitizer.gpu.tools import TOOLS

HERE = Path(__file__).parent
PLACES = {str(HERE): "{here}", str(Path(triton.__file__).parent): "{triton}"}
KEPT = 8
#: Cases for each tool.
CASES = {
    "memcheck": (
        *("oob_load", "oob_store", "oob_atomic", "oob_slice", "oob_helper", "oob_called"),
        *("oob_tuned", "misaligned", "graph", "clean"),
    ),
    "racecheck": ("hazard",),
    "initcheck": ("uninit_read", "other_kernel", "descriptors"),
    "synccheck": ("divergent",),
}


def record(tool: str, case: str, folder: Path) -> None:
    work = folder / f"{tool}-{case}"
    work.mkdir(parents=True)
    target = Target(kind="script", name=str(HERE / "defects.py"), arguments=(case,))
    named = next(tool_kind for tool_kind in TOOLS if tool_kind.name == tool)
    result = run_tool(named, find_tool(), target, work, shown=False, timeout=90)
    print(tool, case, result.why, result.status, len(result.output.records), result.output.remarks)
    shorten(work, PLACES)


def shorten(work: Path, places: dict[str, str]) -> None:
    """Shorten a recording and remove machine-specific paths; adjust the positions in the log."""
    entries = [json.loads(line) for line in (work / LOG).read_text("utf-8").splitlines()]
    events = sorted(entry["position"] for entry in entries if "position" in entry)
    old, new = [0], [0]
    kept: Counter[tuple[str, int]] = Counter()
    text = ""
    for paragraph in (work / REPORT).read_text("utf-8").split("========= \n"):
        whole = f"{paragraph}========= \n"
        lines = paragraph.splitlines()
        at = next((line for line in lines if line.startswith("=========     at ")), "")
        key = (at, bisect_right(events, old[-1] + len("========= COMPUTE-SANITIZER\n")))
        kept[key] += 1
        if not at or kept[key] <= KEPT:
            text += whole
        old.append(old[-1] + len(whole))
        new.append(len(_scrubbed(text, places)))
    (work / REPORT).write_text(_scrubbed(text, places).removesuffix("========= \n"), "utf-8")
    for entry in entries:
        if "position" in entry and entry["position"] > 0:
            # No empty line follows the first line.
            first = entry["position"] <= len("========= COMPUTE-SANITIZER\n")
            index = bisect_right(old, entry["position"]) - 1
            entry["position"] = entry["position"] if first else new[index]
    log = "".join(json.dumps(entry) + "\n" for entry in entries)
    (work / LOG).write_text(_scrubbed(log, places), "utf-8")
    for path in work.iterdir():
        if path.suffix == ".ttir":
            path.write_text(_scrubbed(path.read_text("utf-8"), places), "utf-8")
        elif path.name not in (LOG, REPORT):
            path.unlink()


def _scrubbed(text: str, places: dict[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with ThreadPoolExecutor(4) as pool:
        for tool, cases in CASES.items():
            list(pool.map(record, [tool] * len(cases), cases, [folder] * len(cases)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
