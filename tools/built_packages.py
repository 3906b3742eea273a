"""Installs the built members into clean environments and uses them, for `make ci-full`.

Every supported Python that is there gets an environment of its own, in which nothing leads to the
checkout: `ttools doctor`, a script under each command, a member's import. Where a Python has no CPU
build of torch to be had, only what does without torch is used. Owns what is installed and used; the
files are built by `tools/release.py`.
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

#: Arguments of the command, and the exit status.
Uses = Sequence[tuple[tuple[str, ...], int]]
#: A script under each command.
USES: Uses = (
    (("doctor",), 0),
    (("interpret", "vector_add.py"), 0),
    (("sanitize", "defects/softmax.py"), 1),
    (("sanitize", "vector_add.py"), 0),
    (("profile", "vector_add.py"), 0),
    (("inspect", "--target", "sm_90", "vector_add.py"), 0),
    (("record", "--output", "vector_add.tt", "vector_add.py"), 0),
    (("tune", "--trials", "2", "autotuned.py"), 0),
)
#: Those that need no torch: the version, and the environment, whose missing torch is an error.
USES_WITHOUT_TORCH: tuple[tuple[tuple[str, ...], int], ...] = (
    (("--version",), 0),
    (("doctor",), 1),
)
_STRANGER = "Metadata-Version: 2.1\nName: ttools\nVersion: 9\n"


def install(python: Path, files: Path, *requirements: str, offline: bool = False) -> None:
    """Installs all members from their built wheels.

    Args:
        python: of the environment.
        files: folder of the wheels.
        requirements: installed in the same command, such as a build of torch.
        offline: install nothing but the members; all they need is there.

    Raises:
        subprocess.CalledProcessError: pip fails.
    """
    wheels: list[str] = sorted(str(path) for path in files.glob("*.whl"))
    more = ["--no-index", "--no-deps"] if offline else []
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *more, *wheels, *requirements], check=True)


def use(python: Path, folder: Path, uses: Uses = USES) -> list[str]:
    """Runs each command in an empty folder with the examples; returns what went wrong.

    Args:
        python: of the environment.
        folder: for scripts, caches and reports.
        uses: arguments of the command and the exit status expected.
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
            said = (done.stderr or done.stdout).strip()[-2000:]
            wrong.append(f"`ttools {' '.join(words)}` ended with {done.returncode}: {said}")
    where = "import ttools.core as c, ttools_triton as t; print(c.__file__, t.__file__)"
    found = subprocess.run(
        [python, "-c", where], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if found.returncode != 0 or str(ROOT / "packages") in found.stdout:
        wrong.append(f"the members are not those installed: {found.stdout}{found.stderr}")
    return wrong


def meet_stranger(python: Path, folder: Path) -> list[str]:
    """Puts a distribution called plain `ttools` beside the members; returns what was not said."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-c", asked], text=True).strip())
    (site / "ttools" / "__init__.py").write_text("")
    info = site / "ttools-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_STRANGER)
    (info / "RECORD").write_text("ttools/__init__.py,,\nttools-9.dist-info/RECORD,,\n")
    command = [str(python.parent / "ttools"), "doctor"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 3 and "pip uninstall ttools" in done.stderr:
        return []
    return [f"a stranger's `ttools` is not told: status {done.returncode}, {done.stderr[-500:]}"]


def try_python(version: str, files: Path, torch: str, triton: str) -> Result:
    """Makes an environment of one Python, installs into it and uses it."""
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
            wrong += meet_stranger(own, folder)
        except subprocess.CalledProcessError as failed:
            wrong = [f"pip failed: {failed}"]
    for each in wrong:
        print(f"{name}: {each}", file=sys.stderr)
    return Result(name, "FAILED" if wrong else "passed", no_torch and f"without torch: {no_torch}")


def main() -> int:
    """Builds, installs and uses; 1 when something is wrong under any Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="requirement, as the Makefile's TORCH")
    parser.add_argument("--range", required=True, help="range of Tritons, as TRITON_RANGE")
    parser.add_argument("--python", action="append", help="only this one, such as 3.12; repeatable")
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
