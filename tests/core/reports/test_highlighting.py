"""Tests of highlighted source code in HTML pages."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from ttools.core.reports.highlighting import highlighted, pieces

_TEXT = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(_TEXT, max_size=8), st.sampled_from(["python", "ptx", "llir", "amdgcn", "ttir"]))
def test_no_character_changes(lines: list[str], language: str) -> None:
    assert ["".join(text for _, text in line) for line in pieces(lines, language)] == lines
    shown = highlighted(lines, language)
    assert [unescape(Markup(line).striptags()) for line in shown] == [
        unescape(str(Markup.escape(line).striptags())) for line in lines
    ]


def test_tokens_have_classes_over_several_lines() -> None:
    shown = highlighted(['x = """a', "b < c", '"""  # done', "def f(): pass", "1.5"])
    assert shown == [
        'x = <span class="hs">&#34;&#34;&#34;</span><span class="hs">a</span>',
        '<span class="hs">b &lt; c</span>',
        '<span class="hs">&#34;&#34;&#34;</span>  <span class="hc"># done</span>',
        '<span class="hk">def</span> <span class="hf">f</span>(): <span class="hk">pass</span>',
        '<span class="hn">1.5</span>',
    ]


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ((0, 0), "ab + <cd>"),
        ((0, 2), "[ab] + <cd>"),
        ((1, 7), "a[b + <c]d>"),
        ((5, 9), "ab + [<cd>]"),
    ],
)
def test_marked_columns_are_underlined(mark: tuple[int, int], expected: str) -> None:
    (line,) = highlighted(["ab + <cd>"], "ttgir", {0: mark})
    text = line.replace("</mark><mark>", "").replace("<mark>", "[").replace("</mark>", "]")
    assert unescape(text) == expected
    (line,) = highlighted(["ab + <cd>"], "python", {0: mark})
    text = line.replace("</mark><mark>", "").replace("<mark>", "[").replace("</mark>", "]")
    assert unescape(text) == expected


def test_lines_of_mlir_are_only_escaped() -> None:
    assert highlighted(["%0 = tt.load %a : tensor<4x!tt.ptr<f32>>"], "ttgir") == [
        "%0 = tt.load %a : tensor&lt;4x!tt.ptr&lt;f32&gt;&gt;"
    ]
