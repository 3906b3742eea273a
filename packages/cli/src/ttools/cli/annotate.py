"""Pull request annotations from a SARIF file: `python -m ttools.cli.annotate FILE`.

In continuous integration, one test run writes SARIF for code scanning, and the same findings are
shown at the changed lines. Suppressed findings are left out.
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
    """Yield a workflow command for each result that is not suppressed."""
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
    """Print the annotations for a file; return 2 if it is not SARIF."""
    if len(arguments) != 1:
        print("usage: python -m ttools.cli.annotate FILE", file=sys.stderr)
        return 2
    try:
        commands = list(workflow_commands(parse_json(Path(arguments[0]).read_text("utf-8"))))
    except OSError as error:
        print(f"error: cannot read `{arguments[0]}`: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, AttributeError):
        print(f"error: `{arguments[0]}` is not SARIF", file=sys.stderr)
        return 2
    for command in commands:
        print(command.encode("utf-8", "backslashreplace").decode("utf-8"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
