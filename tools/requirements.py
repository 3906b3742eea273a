"""Prints the requirements of dependency groups of the root pyproject.toml, one per line.

The Makefile gives them to pip in its one install command, because the pip of a fresh virtual
environment of the older supported Pythons does not know `--group` yet.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    # Python 3.10 has no TOML parser of its own; every pip since 21.2 carries this one.
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def expand(groups: dict[str, list[Any]], name: str) -> list[str]:
    """Lists a group's requirements, included groups (PEP 735) in place."""
    requirements: list[str] = []
    for entry in groups[name]:
        if isinstance(entry, str):
            requirements.append(entry)
        else:
            requirements += expand(groups, entry["include-group"])
    return requirements


def group(name: str) -> list[str]:
    """The requirements of one dependency group of the root."""
    return expand(_read(PYPROJECT)["dependency-groups"], name)


def of_members() -> list[str]:
    """What the workspace's members depend on, each other among it."""
    found: list[str] = []
    for path in sorted(PYPROJECT.parent.glob("packages/*/pyproject.toml")):
        found += _read(path)["project"]["dependencies"]
    return list(dict.fromkeys(found))


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def main(names: list[str]) -> int:
    """Prints the groups named on the command line; 2 when one does not exist."""
    groups = _read(PYPROJECT)["dependency-groups"]
    unknown = [name for name in names if name not in groups]
    if unknown or not names:
        print(f"usage: requirements.py GROUP...; groups: {', '.join(groups)}", file=sys.stderr)
        return 2
    for name in names:
        print(*expand(groups, name), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
