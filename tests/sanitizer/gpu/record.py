"""Records what compute-sanitizer prints of `defects.py`; needs a GPU.

`python tests/sanitizer/gpu/record.py FOLDER` leaves a folder for each case with the report, the log
of launches and the kernels' TTIR; `test_recorded.py` reads them. The path of this folder becomes
`{here}`, that of Triton `{triton}`.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import triton

from ttools.core.script import Target
from ttools.sanitizer.gpu.launch_log import LOG, REPORT
from ttools.sanitizer.gpu.tool import find_tool
from ttools.sanitizer.gpu.tool_run import run_tool
from ttools.sanitizer.gpu.tools import TOOLS

HERE = Path(__file__).parent
TRITON = str(Path(triton.__file__).parent)
#: Tool → cases.
CASES = {
    "memcheck": (
        *("oob_load", "oob_store", "oob_atomic", "oob_slice", "oob_helper", "oob_called"),
        *("oob_tuned", "misaligned", "graph", "clean"),
    ),
    "racecheck": ("hazard",),
    "initcheck": ("uninit_read", "other_kernel"),
    "synccheck": ("divergent",),
}


def record(tool: str, case: str, folder: Path) -> None:
    work = folder / f"{tool}-{case}"
    work.mkdir(parents=True)
    target = Target(kind="script", name=str(HERE / "defects.py"), arguments=(case,))
    named = next(each for each in TOOLS if each.name == tool)
    done = run_tool(named, find_tool(), target, work, shown=False, timeout=90)
    print(tool, case, done.why, done.status, len(done.output.records), done.output.remarks)
    for path in work.iterdir():
        if path.name in (LOG, REPORT) or path.suffix == ".ttir":
            text = path.read_text("utf-8").replace(str(HERE), "{here}")
            path.write_text(text.replace(TRITON, "{triton}"), "utf-8")
        else:
            path.unlink()


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with ThreadPoolExecutor(4) as pool:
        for tool, cases in CASES.items():
            list(pool.map(record, [tool] * len(cases), cases, [folder] * len(cases)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
