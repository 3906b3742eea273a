"""Runs the engine's tests over the supported versions of Triton and Python, for `make ci-full`.

Each combination is a call of `make engine` in a virtual environment of its own. A Python that is
not there, or has no CPU build of torch to be had, is skipped with a sentence; a failing
combination fails the whole, after all have run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRITONS = ("3.6.0", "3.7.1", "3.8.0")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# A CPU without AVX-512, as most users' machines are.
NARROW_CPU = "x86-64-v3"


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One run of the engine's tests.

    Attributes:
        name: how the report calls it.
        variables: the Makefile's variables.
        environment: variables added to the environment of the tests.
    """

    name: str
    variables: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)


def triton_combinations(torch: str) -> list[Combination]:
    """Older Tritons under the Python in use."""
    return [
        Combination(
            name=f"triton {version}",
            variables={
                "VENV": f".venv-{version.rpartition('.')[0]}",  # 3.6: the one of `make ci`
                "TRITON": f"triton=={version}",
                "TORCH": torch,
            },
        )
        for version in TRITONS
    ]


def python_combination(version: str, torch: str, triton: str) -> Combination:
    """The newest Triton under another Python."""
    return Combination(
        name=f"python {version}",
        variables={
            "PYTHON": f"python{version}",
            "VENV": f".venv-python-{version}",
            "TRITON": triton,
            "TORCH": torch,
        },
    )


def why_not(version: str, torch: str, triton: str) -> str | None:
    """Returns the reason to skip a Python, or None when its packages can be had."""
    python = shutil.which(f"python{version}")
    probe = [python or "", "-c", "import venv"]
    if python is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        return f"python{version} is not on PATH, or does not run"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([python, "-m", "venv", scratch], check=True)
        pip = [f"{scratch}/bin/python", "-m", "pip"]
        resolved = subprocess.run(
            [*pip, "install", "--quiet", "--dry-run", "--report", "-", torch, triton],
            capture_output=True,
            text=True,
            check=False,
        )
    if resolved.returncode != 0:
        reason = resolved.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        return f"{torch} with {triton} does not resolve for it: {reason[0]}"
    names = [item["metadata"]["name"] for item in json.loads(resolved.stdout)["install"]]
    if any(name.startswith(("nvidia-", "cuda-")) for name in names):
        return f"{torch} means its CUDA build there, which brings gigabytes; `--any-torch` takes it"
    return None


def run(combination: Combination) -> bool:
    """Runs one combination; the tests' output goes straight through."""
    print(f"=== engine: {combination.name}", flush=True)
    settings = [f"{name}={value}" for name, value in combination.variables.items()]
    begin = time.monotonic()
    done = subprocess.run(
        ["make", "engine", *settings],
        cwd=ROOT,
        env={**os.environ, **combination.environment},
        check=False,
    )
    passed = done.returncode == 0
    seconds = time.monotonic() - begin
    print(f"=== engine: {combination.name}: {'passed' if passed else 'FAILED'} ({seconds:.0f} s)")
    return passed


def main() -> int:
    """Runs all combinations; 1 when any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="requirement, as the Makefile's TORCH")
    parser.add_argument(
        "--triton", required=True, help="what the engine was tested with, as TRITON"
    )
    parser.add_argument("--range", required=True, help="range of Tritons for the other Pythons")
    parser.add_argument("--any-torch", action="store_true", help="take CUDA builds of torch too")
    options = parser.parse_args()

    combinations = triton_combinations(options.torch)
    combinations.append(
        Combination(
            name=f"TTOOLS_CPU={NARROW_CPU}",
            variables={"TORCH": options.torch, "TRITON": options.triton},
            environment={"TTOOLS_CPU": NARROW_CPU},
        )
    )
    for version in PYTHONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue  # what all the others run under
        reason = why_not(version, options.torch, options.range)
        if reason is not None and not (options.any_torch and "CUDA build" in reason):
            print(f"=== engine: python {version}: skipped, {reason}", flush=True)
            continue
        combinations.append(python_combination(version, options.torch, options.range))
    failed = [combination.name for combination in combinations if not run(combination)]
    print(f"=== engine: {len(combinations) - len(failed)} passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
