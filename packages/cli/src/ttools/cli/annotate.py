"""Annotations of a pull request from a SARIF file: `python -m ttools.cli.annotate FILE`.

For continuous integration, where one run of the tests writes SARIF for code scanning and the same
findings are to stand at the changed lines. Owns which parts of SARIF they have; findings that
were suppressed are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ttools.core.json_document import parse_json
from ttools.core.reports.github import workflow_command


def workflow_commands(log: dict[str, Any]) -> Iterator[str]:
    """A workflow command for each result that nothing suppresses."""
    for run in log["runs"]:
        for result in run.get("results", ()):
            if result.get("suppressions"):
                continue
            properties = {**_place(result), "title": f"ttools: {result['ruleId']}"}
            level, message = result.get("level", "warning"), result["message"]["text"]
            yield workflow_command(level, properties, message)


def _place(result: dict[str, Any]) -> dict[str, object]:
    for location in result.get("locations", ()):
        physical = location.get("physicalLocation", {})
        uri = physical.get("artifactLocation", {}).get("uri")
        if uri:
            line = physical.get("region", {}).get("startLine")
            return {"file": unquote(uri)} | ({"line": line} if line else {})
    return {}


def main(arguments: Sequence[str]) -> int:
    """Prints the annotations of a file; 2 where it is no SARIF."""
    if len(arguments) != 1:
        print("usage: python -m ttools.cli.annotate FILE", file=sys.stderr)
        return 2
    try:
        found = list(workflow_commands(parse_json(Path(arguments[0]).read_text("utf-8"))))
    except OSError as error:
        print(f"error: cannot read `{arguments[0]}`: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, AttributeError):
        print(f"error: `{arguments[0]}` is no SARIF", file=sys.stderr)
        return 2
    for command in found:
        print(command.encode("utf-8", "backslashreplace").decode("utf-8"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
