"""Lines of a function are known by what is in them, and written once all of it is there."""

from __future__ import annotations

from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.lines import Instruction, Preheader, body_text, flattened
from ttools.interpreter.llvm.value import Label, SSAValue, integer

_X = SSAValue("%x", "i32")


def test_edges_of_a_phi_are_added_while_its_block_is_built() -> None:
    b = Builder()
    phi = b.open_phi("i", integer(0, "i32"), Label("entry"))
    following = b.binary("add", phi.value, 1)
    phi.add(following, Label("again"))
    assert body_text(b.lines) == (
        "  %i1 = phi i32 [0, %entry], [%2, %again]\n  %2 = add i32 %i1, 1"
    )


def test_values_and_labels_are_renamed_and_text_is_not() -> None:
    b = Builder()
    b.start(Label("add"))
    total = b.binary("add", _X, _X)
    b.branch(Label("add"))
    names = {"add": "v0", total: "%v1", _X: "%p0"}
    assert body_text(b.lines, names) == "v0:\n  %v1 = add i32 %p0, %p0\n  br label %v0"
    assert body_text(b.lines) == "add:\n  %1 = add i32 %x, %x\n  br label %add"


def test_what_is_emitted_before_a_loop_comes_where_its_preheader_is() -> None:
    b, preheader = Builder(), Preheader()
    first = b.binary("add", _X, 1)
    b.lines.append(preheader)
    last = b.binary("add", _X, 2)
    with b.before(preheader):
        middle = b.binary("add", _X, 3)
    made = [line.result for line in flattened(b.lines) if isinstance(line, Instruction)]
    assert made == [first, middle, last]
    assert body_text(b.lines).splitlines()[1] == f"  {middle} = add i32 %x, 3"
