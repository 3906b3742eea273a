"""Installs the built packages of the workspace into clean environments, for `make ci-full`.

The packages of the workspace are called members. Every supported Python that is installed gets a
virtual environment of its own, without access to the checkout. There, `ttools doctor`, a script
under each command, and an import of a member must work. If a Python has no CPU build of torch, only
the commands that work without torch are run. `tools/release.py` builds the files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.engine_matrix import PYTHONS, Result, find_python, why_no_torch
from tools.release import ROOT, WHOLE, build, members
from tools.requirements import of_members

#: Commands to run: the arguments of `ttools`, and the expected exit status.
Uses = Sequence[tuple[tuple[str, ...], int]]
#: Commands that run a script: the arguments of `ttools`, and the expected exit status.
USES: Uses = (
    (("doctor",), 0),
    (("interpret", "vector_add.py"), 0),
    (("sanitize", "defects/softmax.py"), 1),
    (("sanitize", "vector_add.py"), 0),
    (("profile", "vector_add.py"), 0),
    (("inspect", "--gpu", "sm_90", "vector_add.py"), 0),
    (("record", "--output", "vector_add.tt", "vector_add.py"), 0),
    (("tune", "--trials", "2", "autotuned.py"), 0),
)
#: Commands that do not need torch. `doctor` reports the missing torch as an error.
USES_WITHOUT_TORCH: tuple[tuple[tuple[str, ...], int], ...] = (
    (("--version",), 0),
    (("doctor",), 1),
)
_OTHER_DISTRIBUTION = "Metadata-Version: 2.1\nName: ttools\nVersion: 9\n"


def install(python: Path, files: Path, *requirements: str, offline: bool = False) -> None:
    """Install all members from their built wheels.

    Args:
        python: Interpreter of the environment.
        files: Folder of the wheels.
        requirements: Further requirements of the same command, such as a build of torch.
        offline: If True, install only the members; their dependencies are installed already.

    Raises:
        subprocess.CalledProcessError: The pip command fails.
    """
    wheels: list[str] = sorted(str(path) for path in files.glob("*.whl"))
    more = ["--no-index", "--no-deps"] if offline else []
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *more, *wheels, *requirements], check=True)


def use(python: Path, folder: Path, uses: Uses = USES) -> list[str]:
    """Run each command in a folder with the examples; return a message for each failure.

    Args:
        python: Interpreter of the environment.
        folder: New folder for scripts, caches and reports.
        uses: Arguments of each command, and the expected exit status.
    """
    shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    caches = {"TTOOLS_CACHE_DIR": str(folder / "cache"), "TRITON_CACHE_DIR": str(folder / "triton")}
    wrong = []
    for words, expected in uses:
        done = subprocess.run(
            [python.parent / "ttools", *words],
            cwd=folder, env={**kept, **caches}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != expected:
            output = (done.stderr or done.stdout).strip()[-2000:]
            wrong.append(f"`ttools {' '.join(words)}` ended with {done.returncode}: {output}")
    where = "import ttools.core as c, ttools_triton as t; print(c.__file__, t.__file__)"
    imported = subprocess.run(
        [python, "-c", where], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if imported.returncode != 0 or str(ROOT / "packages") in imported.stdout:
        wrong.append(f"other packages were imported: {imported.stdout}{imported.stderr}")
    return wrong


def detect_other_distribution(python: Path, folder: Path) -> list[str]:
    """Install another distribution called `ttools`; return a message if `doctor` ignores it."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-c", code], text=True).strip())
    (site / "ttools" / "__init__.py").write_text("")
    info = site / "ttools-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_OTHER_DISTRIBUTION)
    (info / "RECORD").write_text("ttools/__init__.py,,\nttools-9.dist-info/RECORD,,\n")
    command = [str(python.parent / "ttools"), "doctor"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 3 and "pip uninstall ttools" in done.stderr:
        return []
    text = f"`ttools doctor` does not report the other `ttools`: status {done.returncode}"
    return [f"{text}, {done.stderr[-500:]}"]


def try_python(version: str, files: Path, torch: str, triton: str) -> Result:
    """Create an environment for one Python, install the members and run the commands."""
    name = f"python {version}"
    try:
        python = find_python(version)
        no_torch = why_no_torch(python, torch, triton)
    except LookupError as why:
        return Result(name, "skipped", str(why))
    with tempfile.TemporaryDirectory(prefix="ttools-built-") as scratch:
        subprocess.run([python, "-m", "venv", f"{scratch}/venv"], check=True)
        own = Path(scratch, "venv", "bin", "python")
        folder = Path(scratch, "used")
        try:
            if no_torch:
                needed = [
                    r for r in of_members() if not r.startswith(("torch", "triton", "ttools"))
                ]
                pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
                subprocess.run([*pip, triton, *needed], check=True)
                install(own, files, offline=True)
                wrong = use(own, folder, USES_WITHOUT_TORCH)
            else:
                install(own, files, torch, triton)
                wrong = use(own, folder)
            wrong += detect_other_distribution(own, folder)
        except subprocess.CalledProcessError as failed:
            wrong = [f"pip failed: {failed}"]
    for message in wrong:
        print(f"{name}: {message}", file=sys.stderr)
    return Result(name, "FAILED" if wrong else "passed", no_torch and f"without torch: {no_torch}")


def main() -> int:
    """Build and install the members and run the commands; return 1 if any Python fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="pip requirement, as TORCH in the Makefile")
    parser.add_argument("--range", required=True, help="Triton versions, like TRITON_RANGE")
    parser.add_argument("--python", action="append", help="one version, like 3.12; repeatable")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch)
        for member in members():
            build(member, files)
        print(f"=== built: {WHOLE} and {len(members()) - 1} members")
        results = [
            try_python(version, files, options.torch, options.range)
            for version in options.python or PYTHONS
        ]
    for result in results:
        print(f"=== built: {result.name}: {result.outcome} {result.remark}".rstrip())
    return 1 if any(result.outcome == "FAILED" for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
