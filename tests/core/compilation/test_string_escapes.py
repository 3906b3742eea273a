"""Tests that escaped strings in the texts of the stages are decoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.compilation.annotation import annotate
from ttools.core.compilation.string_escapes import unescape, unescape_assembly

texts = st.text(st.characters(codec="utf-8"), max_size=20)


def _escaped(text: str, byte: str) -> str:
    """Escape a text as LLVM's printers do: unprintable bytes, double quotes and backslashes.

    Args:
        text: Text to escape.
        byte: Format of an escaped byte: `02X` for IR, `03o` for assembly.
    """
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    return "".join(chr(b) if b in plain else "\\" + format(b, byte) for b in text.encode())


@given(texts)
def test_unescaping_reverses_escaping(text: str) -> None:
    assert unescape(_escaped(text, "02X")) == text
    assert unescape_assembly(_escaped(text, "03o")) == text


def test_named_escapes() -> None:
    assert unescape(r"a\\b\"c\n\t\C3\B6\22") == 'a\\b"c\n\tö"'
    assert unescape_assembly(r"a\\b\"c\n\t\303\266") == 'a\\b"c\n\tö'
    assert unescape(r"\C3") == "\udcc3"  # names of files may not be valid UTF-8


STAGES = {
    "ttir": '%0 = tt.get_program_id x : i32 loc(#loc1)\n#loc1 = loc("FILE":7:9)',
    "llir": (
        "  %1 = add i32 1, 2, !dbg !3\n!1 = !DIFile(filename: \"NAME\", directory: \"FOLDER\")\n"
        "!2 = distinct !DISubprogram(name: \"k\", file: !1)\n"
        "!3 = !DILocation(line: 7, column: 9, scope: !2)"
    ),
    "ptx": '\t.file\t1 "FILE"\n\t.loc\t1 7 9\n\tadd.s32 %r1, %r2, 1;',
    "sass": '\t//## File "FILE", line 7\n        /*0000*/                   MOV R1, R2 ;',
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("folder", ["/größe", '/a "b" c', "/a\\b", "/[x] (1)", "/a, b: c"])
def test_lines_of_files_in_any_folder(stage: str, folder: str) -> None:
    file = Path(folder, "kernel.py")
    byte = "02X" if stage in ("ttir", "llir") else "03o"
    text = STAGES[stage]
    for word, name in (("FILE", file), ("NAME", file.name), ("FOLDER", folder)):
        text = text.replace(word, _escaped(str(name), byte))
    lines = {
        (line.location.file, line.location.line) for line in annotate(stage, text) if line.location
    }
    assert lines == {(str(file), 7)}
