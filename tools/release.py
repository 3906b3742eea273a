"""Sets the version and links of all packages of the workspace, and builds a release.

    python -m tools.release version            # prints the version of triton-ttools
    python -m tools.release version 0.2.0      # sets the version, and pins between members
    python -m tools.release urls ADDRESS       # sets links to the repository in all members
    python -m tools.release build FOLDER       # builds sdists of all members, and wheels from them

Wheels are built from the sdists, not from the checkout, so that a file that is missing in an sdist
is noticed. The release workflow publishes the files.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Name of the member whose version is that of the workspace.
WHOLE = "triton-ttools"
_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_PIN = re.compile(r'("ttools-[a-z]+(?:\[[a-z0-9]+\])?==)[^"]+"')
_URLS = re.compile(r"^\[project\.urls\]\n(?:.+\n)*\n", re.MULTILINE)


def members() -> list[Path]:
    """Return the folders of all members, sorted by name."""
    return sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))


def version() -> str:
    """Return the version of the workspace."""
    match = _VERSION.search(_read(ROOT / "packages" / WHOLE))
    assert match is not None
    return match[1]


def with_version(text: str, new: str) -> str:
    """Return a package's pyproject.toml with a new version, also in its pins of other packages."""
    return _PIN.sub(rf'\g<1>{new}"', _VERSION.sub(f'version = "{new}"', text))


def with_urls(text: str, address: str) -> str:
    """Return a member's pyproject.toml with links to a repository."""
    address = address.rstrip("/")
    links = {
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{link}"\n' for name, link in links.items())
    head, first, rest = _URLS.sub("", text).partition("\n[tool.hatch")
    return f"{head}\n[project.urls]\n{table}{first}{rest}"


def build(member: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist of a member, and a wheel from that sdist.

    Raises:
        subprocess.CalledProcessError: The build fails; its messages are in `stderr`.
    """
    folder = folder.resolve()
    sdist = _built(member, folder, "sdist")
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sdist) as packed:
            _extract(packed, scratch)
        (unpacked,) = Path(scratch).iterdir()
        return sdist, _built(unpacked, folder, "wheel")


def _extract(packed: tarfile.TarFile, folder: str) -> None:
    # In Python 3.10.11, Python 3.11.3 and earlier, `tarfile` has no extraction filters.
    if hasattr(tarfile, "data_filter"):
        packed.extractall(folder, filter="data")
    else:
        packed.extractall(folder)


def _built(member: Path, folder: Path, target: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=member, capture_output=True, text=True, check=True)
    return Path((done.stdout + done.stderr).split()[-1])


def _read(member: Path) -> str:
    return (member / "pyproject.toml").read_text(encoding="utf-8")


def _write(member: Path, text: str) -> None:
    (member / "pyproject.toml").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 2 if the version is invalid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("version").add_argument("new", nargs="?")
    actions.add_parser("urls").add_argument("address")
    actions.add_parser("build").add_argument("folder", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.action == "build":
        for member in members():
            print(*(path.name for path in build(member, chosen.folder)))
    elif chosen.action == "urls":
        for member in members():
            _write(member, with_urls(_read(member), chosen.address))
    elif chosen.new is None:
        print(version())
    elif not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", chosen.new):
        print(f"{chosen.new} is not a version; write X.Y.Z or X.Y.Zrc1", file=sys.stderr)
        return 2
    else:
        for member in members():
            _write(member, with_version(_read(member), chosen.new))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
