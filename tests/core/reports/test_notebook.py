"""Tests of how results are shown in notebooks, as HTML and as plain text."""

from __future__ import annotations

import html.parser
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.location import SourceLocation, shown_line, shown_place
from ttools.core.reports.notebook import (
    Code,
    Part,
    ShowsItself,
    Table,
    Text,
    host_cells,
    place_cells,
)
from ttools.core.reports.text import location_text


class Shown(ShowsItself):
    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    def _shown(self) -> Iterator[Part]:
        yield from self.parts


class Reader(html.parser.HTMLParser):
    """Parser that collects the text of cells and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.names.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4), TEXTS)
def test_any_text_is_escaped(rows: list[tuple[str, str]], title: str) -> None:
    shown = Shown(Text(title), Code(title, summary=title), Table(title, ("a", ">b"), rows))
    bundle = shown._repr_mimebundle_()
    read = Reader(bundle["text/html"])
    assert read.cells == ["a", "b", *(cell for row in rows for cell in row)]
    assert not read.open
    assert read.names <= {"p", "b", "pre", "details", "summary"} | {
        *("table", "thead", "tbody", "tr", "td", "th")
    }
    assert shown._repr_html_() == bundle["text/html"]


def test_the_text_form_has_the_same_contents() -> None:
    table = Table(
        "Kernels", ("kernel", ">launches", "|source"), [("scale", 1, "x = 1"), ("b", 20, "")]
    )
    text = Shown(table, Text("a note"))._repr_mimebundle_()["text/plain"]
    assert text == (
        "Kernels\nkernel  launches  source\nscale          1  x = 1\nb             20\n\na note"
    )


def test_long_tables_are_cut() -> None:
    table = Table("", ("n",), [(n,) for n in range(1234)])
    code = Code("\n".join("x" * 100), summary="a stage")
    bundle = Shown(table, code)._repr_mimebundle_()
    assert len(Reader(bundle["text/html"]).cells) == 201
    for text in bundle.values():
        assert "and 1,034 more" in text
    assert bundle["text/plain"].endswith("a stage: 100 lines")


def test_locations() -> None:
    line = test_locations.__code__.co_firstlineno
    assert place_cells(__file__, line) == (
        f"test_notebook.py:{line}",
        "def test_locations() -> None:",
    )
    assert host_cells(f"{__file__}:{line}") == place_cells(__file__, line)
    assert place_cells("", 0) == host_cells(None) == host_cells("nowhere") == ("", "")
    assert place_cells("/none/such.py", 3) == ("such.py:3", "")


def test_a_cell_is_named_as_in_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    compilerop = pytest.importorskip("IPython.core.compilerop")
    compiler = compilerop.CachingCompiler()
    file = compiler.cache("x = 1\ny = 2\n", 3)
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    assert shown_place(file, 2, 5) == "Cell In[3], line 2"
    assert shown_line(f"{file}:2") == "Cell In[3], line 2"
    assert place_cells(file, 2) == ("Cell In[3], line 2", "y = 2")
    assert location_text(SourceLocation(file, 2, 1), Path()) == "Cell In[3], line 2"
    assert shown_place("/a/kernel.py", 2, 5) == "/a/kernel.py:2:5"
