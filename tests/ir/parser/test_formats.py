"""Tests of the textual form of every declared operation, compared with MLIR.

Each case is part of the body of a function, in which ` ; ` stands for a line break. MLIR must
accept it, and the parser must find the same operations, operand types and result types as MLIR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from ttools.core.triton_versions import triton_version
from ttools.ir.dialects import OPERATIONS
from ttools.ir.parser import parse_module
from ttools.ir.parser.structured import STRUCTURED

_FUNCTIONS = """module {
  tt.func private @g(%a: i32, %b: f32) -> (i32, f32) {
    tt.return %a, %b : i32, f32
  }
  tt.func public @f(
      %i: tensor<4xi32>, %l: tensor<4xi64>, %f: tensor<4xf32>, %h: tensor<4xf16>,
      %q: tensor<4xf8E5M2>, %b: tensor<4xi1>, %c: i1, %s: i32, %w: i64, %x: f32, %n: index,
      %p: !tt.ptr<f32>, %v: !tt.ptr<i32>, %pp: tensor<4x!tt.ptr<f32>>,
      %a16: tensor<16x16xf16>, %a32: tensor<16x16xf32>,
      %e: tensor<16x32xf8E5M2>, %t: tensor<32x16xf8E5M2>, %sc: tensor<16x1xi8>) {
    BODY
    tt.return
  }
}
"""


def _words(names: str) -> list[str]:
    return names.split()


def _arith() -> Iterator[str]:
    integer = "%r = arith.{0} %i, %i{1} : tensor<4xi32>"
    for name in ("addi", "subi", "muli", "shli"):
        yield from (integer.format(name, flags) for flags in ("", " overflow<nsw, nuw>"))
    for name in _words(
        "divsi divui shrsi shrui andi ori xori ceildivsi ceildivui floordivsi remsi remui"
        " maxsi maxui minsi minui"
    ):
        yield integer.format(name, "")
    for name in _words("addf subf mulf divf remf maximumf minimumf maxnumf minnumf"):
        yield f"%r = arith.{name} %f, %f : tensor<4xf32>"
        yield f"%r = arith.{name} %x, %x fastmath<nnan,ninf> : f32"
    for name in _words("eq ne slt sle sgt sge ult ule ugt uge"):
        yield f"%r = arith.cmpi {name}, %i, %i : tensor<4xi32>"
    for name in _words("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true"):
        yield f"%r = arith.cmpf {name}, %x, %x : f32"
    for name, source, target in (
        ("extsi", "i : tensor<4xi32>", "tensor<4xi64>"),
        ("extui", "i : tensor<4xi32>", "tensor<4xi64>"),
        ("trunci", "l : tensor<4xi64>", "tensor<4xi32>"),
        ("trunci", "l overflow<nsw> : tensor<4xi64>", "tensor<4xi32>"),
        ("extf", "h : tensor<4xf16>", "tensor<4xf32>"),
        ("truncf", "f : tensor<4xf32>", "tensor<4xf16>"),
        ("truncf", "f toward_zero fastmath<fast> : tensor<4xf32>", "tensor<4xf16>"),
        ("fptosi", "f : tensor<4xf32>", "tensor<4xi32>"),
        ("fptoui", "f : tensor<4xf32>", "tensor<4xi32>"),
        ("sitofp", "i : tensor<4xi32>", "tensor<4xf32>"),
        ("uitofp", "i : tensor<4xi32>", "tensor<4xf32>"),
        ("bitcast", "i : tensor<4xi32>", "tensor<4xf32>"),
        ("index_cast", "s : i32", "index"),
        ("index_castui", "s : i32", "index"),
    ):
        yield f"%r = arith.{name} %{source} to {target}"
    yield "%r = arith.cmpf oeq, %x, %x fastmath<nnan> : f32"
    yield "%r = arith.negf %f : tensor<4xf32>"
    yield "%r = arith.select %c, %f, %f : tensor<4xf32>"
    yield "%r = arith.select %b, %f, %f : tensor<4xi1>, tensor<4xf32>"
    yield "%r = arith.select %c, %s, %s : i32"
    yield "%r:2 = arith.addui_extended %i, %i : tensor<4xi32>, tensor<4xi1>"
    yield "%r:2 = arith.mulsi_extended %i, %i : tensor<4xi32>"
    yield "%r, %k = arith.mului_extended %s, %s : i32"
    yield "%r = arith.constant {tt.note = 3 : i32} 1 : i32"


def _math() -> Iterator[str]:
    for name in _words(
        "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor"
        " log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc"
    ):
        yield f"%r = math.{name} %f : tensor<4xf32>"
    yield "%r = math.exp %f fastmath<fast> : tensor<4xf32>"
    for name in ("atan2", "copysign", "powf"):
        yield f"%r = math.{name} %f, %f : tensor<4xf32>"
    for name in ("absi", "ctlz", "ctpop", "cttz"):
        yield f"%r = math.{name} %i : tensor<4xi32>"
    for name in ("isfinite", "isinf", "isnan", "isnormal"):
        yield f"%r = math.{name} %f : tensor<4xf32>"
    yield "%r = math.ipowi %i, %i : tensor<4xi32>"
    yield "%r = math.fma %f, %f, %f : tensor<4xf32>"
    yield "%r = math.fpowi %f, %i : tensor<4xf32>, tensor<4xi32>"
    yield "%r = math.clampf %f to [%f, %f] : tensor<4xf32>"


_CONTROL = """
cf.assert %c, "x"
cf.br ^bb1(%s, %x : i32, f32) ; ^bb1(%y: i32, %z: f32):  // pred: ^bb0 \
; cf.cond_br %c, ^bb1(%y, %z : i32, f32), ^bb2 ; ^bb2:
cf.br ^late ; ^early: ; tt.store %p, %later : !tt.ptr<f32> ; cf.br ^end ; ^late: \
; %later = arith.constant 1.0 : f32 ; cf.br ^early ; ^end:
cf.cond_br %c weights([3, 4]), ^bb1, ^bb1 ; ^bb1:
cf.switch %s : i32, [ default: ^bb1, 42: ^bb2(%s : i32) ] ; ^bb2(%y: i32): ; cf.br ^bb1 ; ^bb1:
%r = scf.for %y = %s to %s step %s iter_args(%z = %x) -> (f32)  : i32 { ; scf.yield %z : f32 ; }
%r:2 = scf.for %y = %n to %n step %n iter_args(%z = %x, %u = %f) -> (f32, tensor<4xf32>) { \
; scf.yield %z, %u : f32, tensor<4xf32> ; } {tt.num_stages = 3 : i32, tt.flatten} \
; tt.store %p, %r#0 : !tt.ptr<f32>
scf.for %y = %n to %n step %n { ; }
scf.for unsigned %y = %s to %s step %s : i32 { ; tt.store %p, %x : !tt.ptr<f32> ; }
%r = scf.while (%y = %s) : (i32) -> i32 { ; scf.condition(%c) %y : i32 ; } do { ; ^bb0(%y: i32): \
; scf.yield %y : i32 ; } attributes {tt.note = 1 : i32}
scf.while : () -> () { ; scf.condition(%c) ; } do { ; scf.yield ; }
%r = scf.if %c -> (i32) { ; scf.yield %s : i32 ; } else { ; scf.yield %s : i32 ; } {a = 1 : i32}
scf.if %c { ; tt.store %p, %x : !tt.ptr<f32> ; }
scf.if %c { ; } else { ; tt.store %p, %x : !tt.ptr<f32> ; }
%r = scf.execute_region -> i32 { ; scf.yield %s : i32 ; }
scf.execute_region no_inline { ; scf.yield ; }
%r = scf.index_switch %n -> i32 case 2 { ; scf.yield %s : i32 ; } default { ; scf.yield %s : i32 ; }
%r:2 = tt.call @g(%s, %x) : (i32, f32) -> (i32, f32)
%r = ub.poison : f32
gpu.barrier
llvm.intr.assume %c : i1
"""

_TRITON = """
%r = tt.load %p : !tt.ptr<f32>
%r = tt.load %pp, %b, %f {isVolatile = true} : tensor<4x!tt.ptr<f32>>
%r = tt.load %pp, %b : tensor<4x!tt.ptr<f32>>
tt.store %p, %x : !tt.ptr<f32>
tt.store %pp, %f, %b : tensor<4x!tt.ptr<f32>>
%r = tt.atomic_rmw fadd, relaxed, sys, %p, %x : (!tt.ptr<f32>, f32) -> f32
%r = tt.atomic_rmw exch, acq_rel, cta, %pp, %f, %b \
: (tensor<4x!tt.ptr<f32>>, tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
%r = tt.atomic_cas acquire, gpu, %v, %s, %s : (!tt.ptr<i32>, i32, i32) -> i32
%r = tt.addptr %p, %s : !tt.ptr<f32>, i32
%r = tt.addptr %pp, %l : tensor<4x!tt.ptr<f32>>, tensor<4xi64>
%r = tt.int_to_ptr %w : i64 -> !tt.ptr<f32>
%r = tt.ptr_to_int %pp : tensor<4x!tt.ptr<f32>> -> tensor<4xi64>
%r = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<i32>
%r = tt.fp_to_fp %f, rounding = rtne : tensor<4xf32> -> tensor<4xf8E5M2>
%r = tt.fp_to_fp %q : tensor<4xf8E5M2> -> tensor<4xf32>
%r = tt.clampf %f, %f, %f, propagateNan = all : tensor<4xf32>
%r = tt.precise_sqrt %f : tensor<4xf32>
%r = tt.precise_divf %f, %f : tensor<4xf32>
%r = tt.mulhiui %i, %i : tensor<4xi32>
%r = tt.extern_elementwise %f, %f {libname = "", libpath = "", symbol = "__nv_powf", pure = true} \
: (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
%r:2 = tt.elementwise_inline_asm "a \\"b\\" \\\\ \\09" {constraints = "=r,=r,r", \
packed_element = 1 : i32, pure = true} %i : tensor<4xi32> -> tensor<4xi32>, tensor<4xf32>
%r = tt.splat %s : i32 -> tensor<4x4xi32>
%u = tt.splat %s : i32 -> tensor<1xi32> ; %r = tt.unsplat %u : tensor<1xi32>
%r = tt.expand_dims %i {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
%u = tt.splat %s : i32 -> tensor<1x4xi32> \
; %r = tt.broadcast %u : tensor<1x4xi32> -> tensor<4x4xi32>
%r = tt.trans %a16 {order = array<i32: 1, 0>} : tensor<16x16xf16> -> tensor<16x16xf16>
%r = tt.reshape %a16 allow_reorder efficient_layout : tensor<16x16xf16> -> tensor<256xf16>
%r = tt.reshape %a16 allow_reorder : tensor<16x16xf16> -> tensor<256xf16>
%r = tt.reshape %a16 : tensor<16x16xf16> -> tensor<256xf16>
%r = tt.cat %i, %i : tensor<4xi32> -> tensor<8xi32>
%r = tt.join %i, %i : tensor<4xi32> -> tensor<4x2xi32> ; %y, %z = tt.split %r \
: tensor<4x2xi32> -> tensor<4xi32>
%r = tt.make_range {end = 8 : i32, start = 4 : i32} : tensor<4xi32>
%r = tt.dot %a16, %a16, %a32 : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
%r = tt.dot %a32, %a32, %a32, inputPrecision = tf32x3 {maxNumImpreciseAcc = 32 : i32} \
: tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
%r = tt.dot_scaled %e scale %sc, %t scale %sc, %a32 lhs = e5m2 rhs = e5m2 {fastMath = true} \
: tensor<16x32xf8E5M2>, tensor<16x1xi8> * tensor<32x16xf8E5M2>, tensor<16x1xi8> -> tensor<16x16xf32>
%r = tt.dot_scaled %e, %t scale %sc, %a32 lhs = e5m2 rhs = e5m2 {fastMath = true} \
: tensor<16x32xf8E5M2> * tensor<32x16xf8E5M2>, tensor<16x1xi8> -> tensor<16x16xf32>
%r = tt.histogram %i, %b : tensor<4xi32> -> tensor<2xi32>
%r = tt.histogram %i : tensor<4xi32> -> tensor<2xi32>
%r = tt.gather %f[%i] {axis = 0 : i32, efficient_layout} : (tensor<4xf32>, tensor<4xi32>) \
-> tensor<4xf32>
%r = "tt.map_elementwise"(%f) <{pack = 1 : i32}> ({ ; ^bb0(%y: f32): \
; tt.map_elementwise.return %y : f32 ; }) : (tensor<4xf32>) -> tensor<4xf32>
%r:2 = "tt.reduce"(%f, %i) <{axis = 0 : i32}> ({ ; ^bb0(%y: f32, %z: i32, %y1: f32, %z1: i32): \
; tt.reduce.return %y, %z : f32, i32 ; }) : (tensor<4xf32>, tensor<4xi32>) -> (f32, i32)
%r = "tt.scan"(%f) <{axis = 0 : i32, reverse = true}> ({ ; ^bb0(%y: f32, %z: f32): \
; %0 = arith.addf %y, %z : f32 ; tt.scan.return %0 : f32 ; }) : (tensor<4xf32>) -> tensor<4xf32>
%r = tt.get_program_id z : i32
%r = tt.get_num_programs y : i32
tt.print "a\\22b: " {hex = true, isSigned = array<i32: 1, 0>} : %i, %x : tensor<4xi32>, f32
tt.print "nothing" {hex = false, isSigned = array<i32>}
tt.assert %c, "m" : i1
"""

# Forms of Triton up to 3.7 or 3.8, tested with Triton 3.6; below, newer ones, tested with 3.9.
_OLD = """
%r = tt.load %pp, %b, %f cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} \
: tensor<4x!tt.ptr<f32>>
%r = tt.load %pp, %b evictionPolicy = evict_first cacheModifier = ca : tensor<4x!tt.ptr<f32>>
tt.store %pp, %f, %b cacheModifier = wt : tensor<4x!tt.ptr<f32>>
%r = tt.make_tensor_ptr %p, [%w, %w], [%w, %w], [%s, %s] {order = array<i32: 1, 0>} \
: <tensor<16x16xf32>> ; %r2 = tt.advance %r, [%s, %s] : <tensor<16x16xf32>> \
; %r3 = tt.load %r2 {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} \
: !tt.ptr<tensor<16x16xf32>> ; tt.store %r2, %r3 {boundaryCheck = array<i32: 0>} \
: !tt.ptr<tensor<16x16xf32>>
%d = tt.make_tensor_descriptor %p, [%s, %s], [%w, %w] {padding = 2 : i32} \
: <f32>, <tensor<16x16xf32>> ; %r = tt.descriptor_load %d[%s, %s] cacheModifier = cg \
: !tt.tensordesc<tensor<16x16xf32>> -> tensor<16x16xf32>
"""

_NEW = """
%r = tt.atomic_load acquire, gpu, %p, %c : (!tt.ptr<f32>, i1) -> f32
%r = tt.atomic_load relaxed, sys, %pp, %b \
: (tensor<4x!tt.ptr<f32>>, tensor<4xi1>) -> tensor<4xf32>
tt.atomic_store release, gpu, %p, %x, %c : !tt.ptr<f32>
tt.atomic_store relaxed, cta, %pp, %f, %b : tensor<4x!tt.ptr<f32>>
%r = tt.atomic_poll acquire, gpu, %v, %s : !tt.ptr<i32>, i32 -> i1
%r = tt.atomic_poll relaxed, sys, %v, %s timeout %w : !tt.ptr<i32>, i32 -> i1
%u = tt.splat %v : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>> \
; %r = tt.atomic_poll acquire, gpu, %u, %i timeout %w \
: tensor<4x!tt.ptr<i32>>, tensor<4xi32> -> tensor<4xi1>
%r = tt.approx_divf %f, %f : tensor<4xf32>
%r = arith.divsi %i, %i exact : tensor<4xi32>
%r = arith.extui %i nneg : tensor<4xi32> to tensor<4xi64>
%r = arith.index_castui %s nneg : i32 to index
%r:2 = math.sincos %f : tensor<4xf32>
ttg.barrier all
ttg.barrier local|global_read
gpu.barrier memfence [#gpu.address_space<workgroup>]
tt.grid_dependency_wait
tt.grid_dependency_launch_dependents
%r = tt.load %pp {cachePolicy = #tt.cache_policy<cache_modifier = cg, eviction_policy = \
evict_last>, isVolatile = true} : tensor<4x!tt.ptr<f32>>
tt.store %p, %x {cachePolicy = #tt.cache_policy<cache_modifier = wt, eviction_policy = \
evict_first>} : !tt.ptr<f32>
%d = tt.make_tensor_descriptor %p, [%s, %s], [%w, %w] {padding = 2 : i32} : <f32>, <16x16xf32> \
; %r = tt.descriptor_load %d[%s, %s] : !tt.tensordesc<16x16xf32> -> tensor<16x16xf32> \
; tt.descriptor_store %d[%s, %s], %r : !tt.tensordesc<16x16xf32>, tensor<16x16xf32> \
; tt.descriptor_reduce max, %d[%s, %s], %r : !tt.tensordesc<16x16xf32>, tensor<16x16xf32>
%k = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32> \
; %d = tt.make_tensor_descriptor %p, [%s, %s], [%w, %w] : !tt.ptr<f32>, !tt.tensordesc<1x16xf32> \
; %r = tt.descriptor_gather %d[%k, %s] : (!tt.tensordesc<1x16xf32>, tensor<16xi32>, i32) \
-> tensor<16x16xf32> ; tt.descriptor_scatter %d[%k, %s], %r \
: !tt.tensordesc<1x16xf32>, tensor<16xi32>, i32, tensor<16x16xf32>
"""


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


_ALL_VERSIONS = [*_arith(), *_math(), *_lines(_CONTROL), *_lines(_TRITON)]


def _text(body: str) -> str:
    return _FUNCTIONS.replace("BODY", body.replace(" ; ", "\n    "))


@pytest.mark.parametrize("body", _ALL_VERSIONS)
def test_form_agrees_with_mlir(body: str, mlir_shapes, our_shapes, check_links) -> None:
    _check(body, mlir_shapes, our_shapes, check_links)


@pytest.mark.parametrize(
    ("body", "version"),
    [(body, (3, 6)) for body in _lines(_OLD)] + [(body, (3, 9)) for body in _lines(_NEW)],
)
def test_form_that_only_some_versions_accept(
    body: str, version: tuple[int, int], mlir_shapes, our_shapes, check_links
) -> None:
    if mlir_shapes(_text(body)) is None and triton_version() != version:
        parse_module(_text(body))
        pytest.skip("this version of Triton does not accept the form")
    _check(body, mlir_shapes, our_shapes, check_links)


def _check(body: str, mlir_shapes: Callable, our_shapes: Callable, check_links: Callable) -> None:
    text = _text(body)
    expected = mlir_shapes(text)
    assert expected is not None, "MLIR rejects this case"
    assert our_shapes(text) == expected
    check_links(parse_module(text))


def test_every_operation_has_a_case() -> None:
    cases = "\n".join([*_ALL_VERSIONS, *_lines(_OLD), *_lines(_NEW), "tt.return", "scf.yield"])
    named = set(re.findall(r"[a-z]+\.[a-z_0-9.]+", cases)) | {
        # A terminator, which cannot precede the `tt.return` of the test's function.
        "ub.unreachable",
        # No supported version of Triton prints this operation.
        "ttg.local_barrier",
    }
    written = {name for name, op in OPERATIONS.items() if op.format is not None}
    assert written | set(STRUCTURED) <= named


@pytest.mark.parametrize(
    ("body", "name", "expected"),
    [
        ("%r = arith.cmpi sle, %s, %s : i32", "arith.cmpi", {"predicate": "sle"}),
        (
            '%r = "arith.cmpi"(%s, %s) <{predicate = 2 : i64}> : (i32, i32) -> i1',
            "arith.cmpi",
            {"predicate": "slt"},
        ),
        (
            "%r = arith.addi %s, %s overflow<nsw, nuw> : i32",
            "arith.addi",
            {"overflowFlags": ("nsw", "nuw")},
        ),
        (
            "%r = arith.truncf %x toward_zero : f32 to f16",
            "arith.truncf",
            {"roundingmode": "toward_zero"},
        ),
        ("%r = tt.get_program_id z : i32", "tt.get_program_id", {"axis": 2}),
        (
            "%r = tt.atomic_rmw umax, release, sys, %v, %s : (!tt.ptr<i32>, i32) -> i32",
            "tt.atomic_rmw",
            {"atomic_rmw_op": "umax", "sem": "release", "scope": "sys"},
        ),
        (
            "%r = tt.load %p cacheModifier = cg evictionPolicy = evict_last : !tt.ptr<f32>",
            "tt.load",
            {"cache": "cg", "evict": "evict_last"},
        ),
        (
            (
                "%r = tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = cg,"
                " eviction_policy = evict_last>} : !tt.ptr<f32>"
            ),
            "tt.load",
            {"cache": "cg", "evict": "evict_last"},
        ),
        (
            "%r = tt.reshape %a16 allow_reorder : tensor<16x16xf16> -> tensor<256xf16>",
            "tt.reshape",
            {"allow_reorder": True},
        ),
        (
            "%r = tt.trans %a16 {order = array<i32: 1, 0>} : tensor<4x8xf16> -> tensor<8x4xf16>",
            "tt.trans",
            {"order": (1, 0)},
        ),
        (
            'tt.print "a\\22\\0A" {hex = true, isSigned = array<i32: 1>} : %s : i32',
            "tt.print",
            {"prefix": 'a"\n', "hex": True, "isSigned": (1,)},
        ),
        (
            "%r = tt.make_tensor_descriptor %p, [%s], [%w] {padding = 2 : i32} : <f32>, <16xf32>",
            "tt.make_tensor_descriptor",
            {"padding": "nan", "operandSegmentSizes": (1, 1, 1)},
        ),
        (
            (
                "%r = tt.dot_scaled %e, %t scale %sc, %a32 lhs = e5m2 rhs = e4m3"
                " {fastMath = true} : tensor<16x32xf8E5M2> * tensor<32x16xf8E5M2>,"
                " tensor<16x1xi8> -> tensor<16x16xf32>"
            ),
            "tt.dot_scaled",
            {
                "a_elem_type": "e5m2",
                "b_elem_type": "e4m3",
                "fastMath": True,
                "operandSegmentSizes": (1, 1, 1, 0, 1),
            },
        ),
        ("ttg.barrier local|global_read", "ttg.barrier", {"addrSpace": ("local", "global_read")}),
        (
            "scf.for unsigned %y = %s to %s step %s : i32 { ; } {tt.num_stages = 3 : i32}",
            "scf.for",
            {"unsignedCmp": True, "tt.num_stages": 3},
        ),
        (
            'tt.print "x" {a = [1, -2.5, "s"], b = true, c, "d.e" = @f, f = #llvm.x<y<z>>}',
            "tt.print",
            {
                "prefix": "x",
                "a": (1, -2.5, "s"),
                "b": True,
                "c": True,
                "d.e": "f",
                "f": "#llvm.x<y<z>>",
            },
        ),
    ],
)
def test_attributes(body: str, name: str, expected: dict[str, object]) -> None:
    ops = [op for op in parse_module(_text(body)).kernel.walk() if op.name == name]
    assert ops[0].attributes == expected


def test_operands_are_in_the_order_of_the_definition() -> None:
    body = (
        "tt.descriptor_store %d[%s, %s], %a32 : !tt.tensordesc<16x16xf32>, tensor<16x16xf32>"
    ).replace("%d", "%v")
    store = parse_module(_text(body)).kernel.regions[0].entry.operations[0]
    assert [value.name for value in store.operands] == ["v", "a32", "s", "s"]
