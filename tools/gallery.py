"""Generates the pages in the gallery with the commands that `docs/gallery/index.md` shows.

python -m tools.gallery [FOLDER]
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery" / "index.md"


def commands() -> dict[str, list[str]]:
    """Return the words of each command after `ttools`, by the name of its output file."""
    by_file = {}
    for line in re.findall(r"^    ttools (.*)$", PAGE.read_text("utf-8"), re.M):
        words = shlex.split(line)
        by_file[words[words.index("--output") + 1]] = words
    return by_file


def make(name: str, folder: Path) -> Path:
    """Generate one page.

    Raises:
        RuntimeError: The command fails.
    """
    output = folder / name
    words = [str(output) if word == name else word for word in commands()[name]]
    done = subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not output.is_file():  # 1 means findings
        raise RuntimeError(f"ttools {shlex.join(words)}: {done.stderr}")
    return output


def main() -> None:
    """Generate all pages."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else PAGE.parent
    for name in commands():
        make(name, folder)


if __name__ == "__main__":
    main()
