"""`.ci/run` runs `make ci` in a copy of the clone in a folder named `ttools`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"
#: Replaces `make`: prints its folder and arguments, and exits with a given status.
MAKE = """\
#!/bin/bash
echo "make $* in $PWD, CI=$CI, chromium required: $TTOOLS_REQUIRE_CHROMIUM"
echo "said on standard error" >&2
find . | sort
exit "$STATUS"
"""

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("bash", "tar", "timeout")),
    reason="bash, tar or timeout is not installed",
)


def clone(folder: Path) -> Path:
    """Create a folder with the files of a clone and files that a developer may have left in it."""
    for name in (".git/config", "Makefile", "tests/größe [a].py", "ttools/x.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for name in (".venv/bin/python", ".venv-3.6/x", ".mypy_cache/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci" / "run")
    return folder


def run(folder: Path, programs: Path, status: int, **variables: str) -> tuple[int, str, str]:
    programs.mkdir()
    for name, text in (("make", MAKE), ("chromium", "#!/bin/bash\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "STATUS": str(status), **variables}
    result = subprocess.run(
        [folder / ".ci" / "run"],
        cwd=programs,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return result.returncode, result.stdout, result.stderr


@pytest.mark.parametrize("name", ["ttools", "plain", "torch dev", "[a] 'b'"])
@pytest.mark.parametrize("status", [0, 2])
def test_make_runs_in_a_folder_called_ttools(tmp_path: Path, name: str, status: int) -> None:
    folder = clone(tmp_path / name)
    ended, out, errors = run(folder, tmp_path / "programs", status)
    assert (ended, errors) == (status, "said on standard error\n")
    first, *files = out.splitlines()
    assert first.startswith(f"make ci in {folder}/ttools-ci.")
    assert "/ttools, CI=1, chromium required: 1" in first
    assert {"./.git/config", "./Makefile", "./tests/größe [a].py", "./ttools/x.py"} <= set(files)
    assert not any("venv" in file or "_cache" in file or "ttools-ci" in file for file in files)
    assert not list(folder.glob("ttools-ci.*"))


def test_another_disk_may_be_named(tmp_path: Path) -> None:
    folder, disk = clone(tmp_path / "clone"), tmp_path / "other"
    disk.mkdir()
    ended, out, _ = run(folder, tmp_path / "programs", 0, TMPDIR=str(disk))
    assert ended == 0
    assert out.startswith(f"make ci in {disk}/ttools-ci.")
    assert not list(disk.iterdir())
