"""Tests of the parser's error messages, and of operations that ttools does not declare."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import TtoolsError, UnsupportedError
from ttools.ir.parser import ParseError, parse_module


def _body(body: str) -> str:
    return f"module {{\n  tt.func @f(%n: i32) {{\n    {body}\n    tt.return\n  }}\n}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected `module` or `tt.func`, found the end of the text"),
        ("ld.global.b32 %r1;", "expected `module` or `tt.func`, found `ld.global.b32`"),
        ("module {", "expected `tt.func`, found the end of the text"),
        ("module {\n}", "expected `tt.func`, found `}`"),
        ("tt.func @f() {\n tt.return", "this `{` is never closed"),
        ("tt.func @f() {\n tt.return\n}\ntt.func @f() {\n tt.return\n}", "`@f` is defined twice"),
        (_body("%0 = arith.addi %n %n : i32"), "expected `,`, found `%n`"),
        (_body("%0 = arith.addi %n, %n"), "expected `:`, found `tt.return`"),
        (_body("%0 = arith.addi %n, 1 : i32"), "expected a value (`%name`), found `1`"),
        (_body("%0 = arith.addi %n, %n : i3x"), "expected a type, found `i3x`"),
        (_body("%0 = arith.addi %n, %m : i32"), "`%m` is not defined"),
        (_body("%n = arith.addi %n, %n : i32"), "`%n` is defined twice"),
        (_body("%0:2 = arith.addi %n, %n : i32"), "`arith.addi` has 1 results, but 2 names"),
        (_body("tt.get_program_id x : i32"), "`tt.get_program_id` has 1 results, but 0 names"),
        (_body("%0 = tt.get_program_id w : i32"), "expected `x`, `y` or `z`, found `w`"),
        (_body("%0 = 5"), "expected an operation, found `5`"),
        (_body("cf.br ^bb1"), "the block `^bb1` does not exist"),
        (_body("^a:\n ^a:"), "this block is defined twice"),
        (_body("cf.br %n"), "expected a block (`^name`), found `%n`"),
        (_body('%0 = "x.y"(%n) : () -> i32'), "`x.y` has 1 operands, but 0 types"),
        (_body("%0 = arith.constant {a 1} 2 : i32"), "expected `,` or `}`, found `1`"),
        (_body("tt.return loc(#loc9)"), "`#loc9` is not defined"),
        (_body("tt.return loc(somewhere)"), "expected a location, found `somewhere`"),
        (_body('tt.assert %n, "open'), 'expected a string, found `"`'),
        (
            _body("%0 = scf.for %i = %n to %n step %n iter_args(%a = %n) -> (i32, i32) {\n}"),
            "1 carried values, but 2 types",
        ),
        (
            _body("%0 = tt.splat %n : i32 -> tensor<4xi32, #ttg.blocked>"),
            "TTGIR; ttools runs TTIR, the stage before",
        ),
    ],
)
def test_message(text: str, expected: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert expected in str(caught.value).splitlines()[0]


def test_error_shows_the_line_and_marks_the_column() -> None:
    text = _body('%0 = arith.addi %n, %n :: i32 loc("k.py":3:4)')
    with pytest.raises(ParseError) as caught:
        parse_module(text, "k.ttir")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("k.ttir", 3, 28)
    assert isinstance(caught.value, TtoolsError)
    assert str(caught.value) == (
        "k.ttir:3:28: error: expected `:`, found `::`\n"
        '    3 |     %0 = arith.addi %n, %n :: i32 loc("k.py":3:4)\n'
        "      |                            ^^"
    )


def test_error_in_a_location_definition() -> None:
    with pytest.raises(ParseError, match=r"<ttir>:4:13: error: expected a location, found `5`"):
        parse_module("tt.func @f() {\n tt.return loc(#loc)\n}\n#loc = loc( 5)\n")


def test_unknown_operation_is_named_with_its_source_line() -> None:
    body = '%0 = ttng.wgmma %n {a = 1} ({\n tt.return loc("z.py":9:9)\n}) : i32 loc("k.py":3:5)'
    with pytest.raises(UnsupportedError) as caught:
        parse_module(_body(body))
    assert caught.value.what == "operation `ttng.wgmma`"
    assert str(caught.value.location) == "k.py:3:5"


def test_unknown_operation_without_location() -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_module(_body("ttng.fence"))
    assert caught.value.location is None


def test_unknown_operation_outside_of_a_function() -> None:
    with pytest.raises(UnsupportedError, match=r"operation `llvm\.mlir\.global` outside"):
        parse_module("module {\n llvm.mlir.global @x : i32\n}")


def test_unknown_operation_in_generic_form_parses() -> None:
    body = '%0 = "ttng.unknown"(%n, %n) <{kind = 3 : i32}> {note = "x"} : (i32, i32) -> i32'
    op = parse_module(_body(body)).kernel.regions[0].entry.operations[0]
    assert op.name == "ttng.unknown"
    assert op.attributes == {"kind": 3, "note": "x"}
    assert len(op.operands) == 2


def test_branches_in_generic_form_forward_their_operands() -> None:
    text = _body(
        '"cf.cond_br"(%c, %n, %n, %n)[^a, ^b] <{operandSegmentSizes = array<i32: 1, 1, 2>}>'
        " : (i1, i32, i32, i32) -> ()\n"
        "^a(%x: i32):\n tt.return\n^b(%y: i32, %z: i32):"
    ).replace("%n: i32", "%n: i32, %c: i1")
    branch = parse_module(text).kernel.regions[0].entry.terminator
    assert [len(forwarded) for _, forwarded in branch.successors] == [1, 2]


_VALID = (
    _body(
        "%0 = arith.constant dense<[1, 2]> : tensor<2xi32> loc(#loc1)\n"
        "%1:2 = scf.for %i = %n to %n step %n iter_args(%a = %n, %b = %0) -> (i32, tensor<2xi32>)"
        " : i32 {\n %c = arith.addi %a, %i : i32\n scf.yield %c, %b : i32, tensor<2xi32>\n}\n"
        '%2 = "tt.reduce"(%1#1) <{axis = 0 : i32}> ({\n^bb0(%x: i32 loc("x"(#loc1)), %y: i32):\n'
        " tt.reduce.return %x : i32\n}) : (tensor<2xi32>) -> i32\n"
        'tt.print "p" {hex = false, isSigned = array<i32: 1>} : %2 : i32'
    )
    + '#loc1 = loc(callsite("a.py":1:2 at unknown))\n'
)
_TOKENS = re.findall(r'[%#^@!]?[\w.]+|"[^"]*"|\s+|.', _VALID)


@given(st.data())
def test_damaged_text_raises_no_other_exception(data: st.DataObject) -> None:
    tokens = list(_TOKENS)
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(tokens) - 1))
        tokens[index] = data.draw(st.sampled_from(["", *tokens]))
    end = data.draw(st.integers(0, len(tokens)) | st.just(len(tokens)))
    with contextlib.suppress(TtoolsError):
        parse_module("".join(tokens[:end]))


def test_the_undamaged_text_is_valid() -> None:
    assert len(list(parse_module("".join(_TOKENS)).kernel.walk())) == 9


def test_comments_and_missing_locations_are_accepted() -> None:
    module = parse_module("// a file\n\n" + _body("// nothing here\n") + "// the end")
    assert module.kernel.location is None
    assert [op.name for op in module.kernel.walk()] == ["tt.func", "tt.return"]


def test_module_attributes() -> None:
    module = parse_module(
        'module @m attributes {tt.x = 4 : i32, "a.b" = "c"} {\n tt.func @f() {\n tt.return\n}\n}'
    )
    assert module.attributes == {"tt.x": 4, "a.b": "c"}


def test_sibling_regions_can_reuse_names() -> None:
    loop = "scf.for %i = %n to %n step %n : i32 {\n %0 = arith.addi %i, %i : i32\n}\n"
    module = parse_module(_body(loop + loop))
    first, second = (op for op in module.kernel.walk() if op.name == "arith.addi")
    assert first.operands[0] is not second.operands[0]


def test_names_are_local_to_their_region() -> None:
    loop = "scf.for %i = %n to %n step %n : i32 {\n %0 = arith.addi %i, %i : i32\n}\n"
    with pytest.raises(ParseError, match="`%0` is not defined"):
        parse_module(_body(loop + "%1 = arith.addi %0, %n : i32"))
