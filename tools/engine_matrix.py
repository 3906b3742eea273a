"""Runs the engine's tests with the supported versions of Triton and Python, for `make ci-full`.

Each combination has a virtual environment of its own. If a Python has no CPU build of torch, the
tests run without torch, and those that need it are skipped. A Python that is not installed is
skipped with a message. If a combination fails, the others still run, and the exit status is 1.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.requirements import group, of_members

ROOT = Path(__file__).parent.parent
TRITONS = ("3.6.0", "3.7.1", "3.8.0")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# Most users' machines have a CPU like this, without AVX-512.
NARROW_CPU = "x86-64-v3"
_TESTS = ("tests/core", "tests/ir", "tests/interpreter", "tests/watch", "tests/examples")


@dataclass(frozen=True, kw_only=True)
class Combination:
    """One run of the engine's tests.

    Attributes:
        name: Name in the report.
        variables: Variables for make.
        environment: Additional environment variables of the tests.
        without_torch: Reason why torch is missing; empty if it is installed.
    """

    name: str
    variables: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)
    without_torch: str = ""


@dataclass(frozen=True)
class Result:
    """The outcome of a combination (passed, FAILED or skipped), and a remark."""

    name: str
    outcome: str
    remark: str


def triton_combinations(torch: str) -> list[Combination]:
    """Return combinations with older versions of Triton and the current Python."""
    return [
        Combination(
            name=f"triton {version}",
            variables={
                "VENV": f".venv-{version.rpartition('.')[0]}",  # `make ci` uses that of 3.6
                "TRITON": f"triton=={version}",
                "TORCH": torch,
            },
        )
        for version in TRITONS
    ]


def narrow_combination(torch: str, triton: str) -> Combination:
    """Return the combination of `make test`, compiling for a CPU with narrower vectors."""
    return Combination(
        name=f"cpu {NARROW_CPU}",
        variables={"TORCH": torch, "TRITON": triton},
        environment={"TTOOLS_CPU": NARROW_CPU},
    )


def python_combination(version: str, torch: str, triton: str, any_torch: bool) -> Combination:
    """Return the combination of the newest Triton and another Python.

    Raises:
        LookupError: The Python is not installed, or no Triton supports it.
    """
    python = find_python(version)
    missing = why_no_torch(python, torch, triton)
    if any_torch and "CUDA build" in missing:
        missing = ""
    return Combination(
        name=f"python {version}{' without torch' if missing else ''}",
        variables={
            "PYTHON": python,
            "VENV": f".venv-python-{version}{'-bare' if missing else ''}",
            "TRITON": triton,
            "TORCH": torch,
        },
        without_torch=missing,
    )


def find_python(version: str) -> str:
    """Return the first `pythonX.Y` on PATH or in pyenv that runs; pyenv's shims may fail to run.

    Raises:
        LookupError: There is none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(f"python{version}") or ""]
    candidates += sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python")), reverse=True)
    for python in filter(None, candidates):
        probe = [python, "-c", "import ensurepip, ssl, venv"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return python
    raise LookupError(f"python{version} is neither on PATH nor among pyenv's, or does not run")


def why_no_torch(python: str, torch: str, triton: str) -> str:
    """Return the reason why a Python has no CPU build of torch; empty if it has one.

    Raises:
        LookupError: Triton does not support the Python, either.
    """
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([python, "-m", "venv", scratch], check=True)
        both, message = _resolve(f"{scratch}/bin/python", torch, triton)
        if both is None:
            alone, _ = _resolve(f"{scratch}/bin/python", triton)
            if alone is None:
                raise LookupError(f"{triton} does not resolve for {python}: {message}")
            return f"{torch} with {triton} does not resolve: {message}"
    if any(name.startswith(("nvidia-", "cuda-")) for name in both):
        return f"{torch} resolves to its CUDA build (gigabytes); `--any-torch` accepts it"
    return ""


def _resolve(python: str, *requirements: str) -> tuple[list[str] | None, str]:
    """Return the names of packages that pip would install, or None, and pip's last error."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--dry-run", "--report", "-", *requirements],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return None, (errors or ["pip gave no reason"])[-1].removeprefix("ERROR: ")
    return [item["metadata"]["name"] for item in json.loads(done.stdout)["install"]], ""


def run(combination: Combination, jobs: int, pytest_arguments: str) -> Result:
    """Run one combination; the output of the tests is not captured."""
    print(f"=== engine: {combination.name}", flush=True)
    begin = time.monotonic()
    test = _run_bare if combination.without_torch else _run_make
    passed = test(combination, jobs, pytest_arguments)
    took = f"{time.monotonic() - begin:.0f} s"
    remark = f"{took}; {combination.without_torch}" if combination.without_torch else took
    return Result(combination.name, "passed" if passed else "FAILED", remark)


def _run_make(combination: Combination, jobs: int, pytest_arguments: str) -> bool:
    settings = [f"{name}={value}" for name, value in combination.variables.items()]
    command = ["make", "engine", f"TEST_JOBS={jobs}", f"PYTEST_ARGS={pytest_arguments}", *settings]
    return _succeeds(command, combination.environment)


def _run_bare(combination: Combination, jobs: int, pytest_arguments: str) -> bool:
    """Install all dependencies of the members except torch, and run the tests."""
    venv = ROOT / combination.variables["VENV"]
    # pip has no option to exclude one dependency.
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    needed = [r for r in of_members() if not r.startswith(("torch", "triton", "ttools"))]
    members = [f"-e{path.parent}" for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
    shared = ["-n", str(jobs), "--dist", "loadfile"]
    steps: list[Sequence[str]] = [
        [combination.variables["PYTHON"], "-m", "venv", str(venv)],
        [*pip, combination.variables["TRITON"], *needed, *group("test")],
        [*pip, "--no-deps", *members],
        [*pip[:1], "-m", "pytest", "-m", "not slow", *shared, *pytest_arguments.split(), *_TESTS],
    ]
    return all(_succeeds(step, combination.environment) for step in steps)


def _succeeds(command: Sequence[str], environment: dict[str, str]) -> bool:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    return done.returncode == 0


def chosen(options: argparse.Namespace) -> tuple[list[Combination], list[Result]]:
    """Return the combinations to run, and the results of those that cannot run."""
    combinations = triton_combinations(options.torch)
    combinations.append(narrow_combination(options.torch, options.triton))
    combinations = [c for c in combinations if _matches(c.name, options.only)]
    skipped: list[Result] = []
    for version in PYTHONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue  # all other combinations use this Python
        if not _matches(f"python {version}", options.only):
            continue
        try:
            made = python_combination(version, options.torch, options.range, options.any_torch)
        except LookupError as why:
            skipped.append(Result(f"python {version}", "skipped", str(why)))
        else:
            combinations.append(made)
    return combinations, skipped


def _matches(name: str, only: str) -> bool:
    words = [word.strip() for word in only.split(",") if word.strip()]
    return not words or any(word in name for word in words)


def main() -> int:
    """Run the combinations; return 1 if any failed, 2 if no name matches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="pip requirement, as TORCH in the Makefile")
    parser.add_argument(
        "--triton", required=True, help="tested version, like TRITON in the Makefile"
    )
    parser.add_argument("--range", required=True, help="Triton versions for the other Pythons")
    parser.add_argument("--any-torch", action="store_true", help="accept CUDA builds of torch")
    parser.add_argument(
        "--only", default="", help="combinations whose names contain one of these: 3.7,python,cpu"
    )
    parser.add_argument("--jobs", type=int, default=0, help="number of test processes")
    parser.add_argument("--pytest-args", default="", help="more arguments for pytest")
    options = parser.parse_args()

    combinations, results = chosen(options)
    if not combinations and not results:
        print(f"no combination has a name that contains {options.only}", file=sys.stderr)
        return 2
    results += [run(combination, options.jobs, options.pytest_args) for combination in combinations]
    for result in results:
        print(f"=== engine: {result.name}: {result.outcome} ({result.remark})")
    return 1 if any(result.outcome == "FAILED" for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
