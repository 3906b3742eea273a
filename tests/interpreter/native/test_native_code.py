"""Tests that the runtime's LLVM IR is up to date with its C files and the layouts of structures."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.native_code import CLANG, compiled, digest, sources, stripped


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_the_text_is_up_to_date(path: Path) -> None:
    text = path.with_suffix(".ll").read_text()
    assert text.splitlines()[1] == f"; {digest(path)}", "run `python -m tools.native_code`"


def test_no_other_text_is_checked_in() -> None:
    (folder,) = {path.parent for path in sources()}
    assert {path.stem for path in folder.glob("*.ll")} == {path.stem for path in sources()}


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_the_text_names_no_machine(path: Path) -> None:
    text = path.with_suffix(".ll").read_text()
    assert not re.search(r"x86|target (triple|datalayout)|attributes #|metadata|^!", text, re.M)


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_the_compiler_produces_the_same_text(path: Path) -> None:
    assert compiled(path) == path.with_suffix(".ll").read_text()


def test_details_of_the_compiler_are_removed() -> None:
    text = """; ModuleID = 'x.c'
source_filename = "x.c"
target datalayout = "e-m:e"

; Function Attrs: noinline nounwind
define dso_local noundef i32 @f(ptr nocapture noundef readonly align 8 %x) local_unnamed_addr #0 {
  %y = load i32, ptr %x, align 4, !tbaa !5
  %z = tail call i32 @g(i32 noundef %y) #1
  ret i32 %z
}

attributes #0 = { noinline nounwind "target-cpu"="x86-64" }
attributes #1 = { nounwind }
!5 = !{!"int"}
"""
    assert (
        stripped(text)
        == """define i32 @f(ptr %x) noinline {
  %y = load i32, ptr %x, align 4
  %z = call i32 @g(i32 %y)
  ret i32 %z
}
"""
    )
