"""Tests of the reader of JSON files that ttools writes, and of its errors for invalid files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.json_document import Amount, read_json_document


@dataclass(frozen=True)
class Table:
    rows: list[Amount]


def test_a_document_of_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"schema": "ttools.x/1", "rows": [1], "other": 2}')
    assert read_json_document(path, "ttools.x/1", "table", Table) == Table([1])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot read the table `.*a.json`: No such file"),
        (b"{", "is not a table: "),
        (b"\xff", "is not a table: "),
        (b"[]", "has schema None, not 'ttools.x/1'; write it anew"),
        (b'{"schema": "ttools.x/1"}', "is a damaged table: .* missing required field `rows`"),
        (b'{"schema": "ttools.x/1", "rows": [1, -1]}', r"Expected .* >= 0.0 - at `\$.rows\[1\]`"),
        (b'{"schema": "ttools.x/1", "rows": [NaN]}', r"Expected .* >= 0.0 - at `\$.rows\[0\]`"),
        (b'{"schema": "ttools.x/1", "rows": [1e999]}', r"Expected .* <= .* - at `\$.rows\[0\]`"),
        (b"[" * 200 + b"]" * 200, "is not a table: it nests deeper than 100 levels"),
        (b'{"schema": "ttools.x/2"}', "has schema 'ttools.x/2', not 'ttools.x/1'; write it anew"),
    ],
)
def test_invalid_documents_are_errors(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read_json_document(path, "ttools.x/1", "table", Table, advice="write it anew")
