"""Tests of the lines of a function, which are objects until the function is complete."""

from __future__ import annotations

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Instruction, Preheader, body_text, flattened
from ttools.interpreter.llvm.value import Label, SSAValue, integer

_X = SSAValue("%x", "i32")


def test_edges_can_be_added_to_a_phi_later() -> None:
    b = Builder()
    phi = b.open_phi("i", integer(0, "i32"), Label("entry"))
    following = b.binary("add", phi.value, 1)
    phi.add(following, Label("again"))
    assert body_text(b.lines) == (
        "  %i1 = phi i32 [0, %entry], [%2, %again]\n  %2 = add i32 %i1, 1"
    )


def test_values_and_labels_are_renamed_but_text_is_not() -> None:
    b = Builder()
    b.start(Label("add"))
    total = b.binary("add", _X, _X)
    b.branch(Label("add"))
    names = {"add": "v0", total: "%v1", _X: "%p0"}
    assert body_text(b.lines, names) == "v0:\n  %v1 = add i32 %p0, %p0\n  br label %v0"
    assert body_text(b.lines) == "add:\n  %1 = add i32 %x, %x\n  br label %add"


def test_code_before_a_loop_is_in_its_preheader() -> None:
    b, preheader = Builder(), Preheader()
    first = b.binary("add", _X, 1)
    b.lines.append(preheader)
    last = b.binary("add", _X, 2)
    with b.before(preheader):
        middle = b.binary("add", _X, 3)
    results = [line.result for line in flattened(b.lines) if isinstance(line, Instruction)]
    assert results == [first, middle, last]
    assert body_text(b.lines).splitlines()[1] == f"  {middle} = add i32 %x, 3"
