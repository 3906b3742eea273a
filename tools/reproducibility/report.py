"""Tables of the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tools.harness import markdown

#: Titles of columns, with the verdict and whether some draw differs; None for not executed.
_COLUMNS = (
    ("called equal and equal", "equal", False),
    ("called equal but different", "equal", True),
    ("called different and different", "differs", True),
    ("called different but equal", "differs", False),
)
#: The columns without a GPU.
_VERDICTS = (("called equal", "equal", None), ("called different", "differs", None))


def pairs(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the pairs that have a verdict; `differs` is None for those not executed on a GPU."""
    for name, case in data["cases"].items():
        verdicts = case.get("verdicts", [])
        counts = case.get("observations", [None] * len(verdicts))
        for verdict, count in zip(verdicts, counts if verdicts else [], strict=True):
            differs = None if count is None else count > 0
            yield {"kernel": name, "group": case["group"], **verdict, "differs": differs}


def unsound(data: dict[str, Any]) -> list[str]:
    """Return the pairs that are called equal and differ."""
    return [
        f"{pair['kernel']}: {pair['question']}: {pair['subject']}"
        for pair in pairs(data)
        if pair["verdict"] == "equal" and pair["differs"]
    ]


def table(data: dict[str, Any]) -> str:
    """Return the numbers of pairs by kernel, group and question, in Markdown."""
    parts = [_grouped(key, list(pairs(data))) for key in ("kernel", "group", "question")]
    failures = [
        f"{name}: {key}: {text.splitlines()[0]}"
        for name, case in data["cases"].items()
        for key, text in case.items()
        if key.startswith("error")
    ]
    return "\n\n".join([*parts, *failures])


def _grouped(key: str, own: list[dict[str, Any]]) -> str:
    columns = _COLUMNS if any(pair["differs"] is not None for pair in own) else _VERDICTS
    titles = [*(title for title, _, _ in columns), "unknown", "share of different"]
    rows = []
    for kind in [*dict.fromkeys(pair[key] for pair in own), "all"]:
        chosen = [pair for pair in own if kind in ("all", pair[key])]
        counts = Counter((pair["verdict"], pair["differs"]) for pair in chosen)
        right, wrong = counts["differs", True], counts["differs", False]
        share = f"{100 * right / (right + wrong):.0f}%" if right + wrong else ""
        cells = [counts[verdict, differs] for _, verdict, differs in columns]
        unknown = sum(pair["verdict"] == "unknown" for pair in chosen)
        rows.append((kind, *map(str, [*cells, unknown]), share))
    return markdown((key, *titles), rows, numbers=",".join(titles))
