"""Prints the requirements of dependency groups of the root pyproject.toml, one per line.

The Makefile passes them to pip in a single install command. In a fresh virtual environment, pip of
the older supported Pythons does not support `--group` yet.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    # Python 3.10 has no TOML parser, but pip has contained one since version 21.2.
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def expand(groups: dict[str, list[Any]], name: str) -> list[str]:
    """Return a group's requirements, with included groups (PEP 735) expanded."""
    requirements: list[str] = []
    for entry in groups[name]:
        if isinstance(entry, str):
            requirements.append(entry)
        else:
            requirements += expand(groups, entry["include-group"])
    return requirements


def group(name: str) -> list[str]:
    """Return the requirements of one dependency group of the root pyproject.toml."""
    return expand(_read(PYPROJECT)["dependency-groups"], name)


def of_members() -> list[str]:
    """Return the dependencies of all members, including other members."""
    dependencies: list[str] = []
    for path in sorted(PYPROJECT.parent.glob("packages/*/pyproject.toml")):
        dependencies += _read(path)["project"]["dependencies"]
    return list(dict.fromkeys(dependencies))


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def main(names: list[str]) -> int:
    """Print the groups named on the command line; return 2 if one does not exist."""
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
