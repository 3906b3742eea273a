"""All figures of the held-out kernels, on one GPU and within a time.

    python benchmarks/tuning/held_out_figures.py FOLDER [--seconds 540] [--steps record,whole,known]

Records their spaces (`record_spaces.py`, FOLDER/held_out.json), then times whole cold processes of
the tuner and of exhaustive `triton.autotune` and compares winners with the best of what was
recorded (`whole_process.py`, FOLDER/whole.json), then whole processes that know the winner
(`known.py`, FOLDER/known.json). Each step has its share of what is left of the seconds; what it
does not come to is told.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from held_out.problems import HELD_OUT_PROBLEMS

#: Exhaustively, one configuration of it compiles for minutes in a process by itself.
SLOW = ("depthwise",)
#: What compiles longer is not recorded.
TIMEOUT_S = "20"
#: Of the time that is left when each step begins.
SHARES = {"record": 0.3, "whole": 0.72, "known": 0.8}


def commands(folder: Path) -> dict[str, list[str]]:
    """The command of each step, but for its seconds."""
    names = [each.name for each in HELD_OUT_PROBLEMS]
    quick = [name for name in names if name not in SLOW]
    only = ["--only", ",".join([*quick, *SLOW])]
    samples = folder / "held_out.json"
    return {
        "record": ["record_spaces.py", "--output", str(samples), *only, "--timeout", TIMEOUT_S],
        "whole": [
            *(
                "whole_process.py",
                "--samples",
                str(samples),
                "--output",
                str(folder / "whole.json"),
            ),
            *(*only, "--autotune", ",".join(quick), "--shapes", "1"),
        ],
        "known": [
            *("known.py", "--output", str(folder / "known.json"), "--rounds", "3"),
            *("--only", "route,add_norm,selective_scan,quantize,window_attention,block_scaled"),
            *("--autotune", "route"),
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--steps", default=",".join(SHARES))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    own = Path(__file__).parent
    for step, (program, *words) in commands(options.folder).items():
        if step not in options.steps.split(","):
            continue
        seconds = (end - time.monotonic()) * SHARES[step]
        print(f"== {step}, {seconds:.0f} s", flush=True)
        command = [sys.executable, str(own / program), *words, "--seconds", f"{seconds:.0f}"]
        subprocess.run(command, check=False)


if __name__ == "__main__":
    main()
