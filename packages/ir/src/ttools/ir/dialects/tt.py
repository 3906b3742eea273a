"""The `tt` dialect: Triton's own operations, as of Triton 3.6 to 3.9.

The formats are those of Triton's include/triton/Dialect/Triton/IR/TritonOps.td. `tt.func` has a
custom syntax, which `ttools.ir.parser.structured` parses; `tt.reduce`, `tt.scan` and
`tt.map_elementwise` are printed in MLIR's generic form.
"""

from __future__ import annotations

from ttools.ir.dialects.coordinates import (
    any_order,
    broadcast,
    expand_dims,
    first_element,
    join,
    reshape,
    splat,
    split,
    transpose,
)
from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.integers import (
    displaced,
    high_product,
    make_range,
    num_programs,
    program_id,
)
from ttools.ir.dialects.traits import (
    ATOMIC,
    AXIS_INFO,
    BARRIER,
    CALL,
    CAST,
    CHOOSES,
    COMBINES,
    COUNTS,
    CROSS_LANE,
    CROSS_THREAD,
    DISPLACES,
    EFFECT,
    ELEMENTWISE,
    FROM_COORDINATES,
    FUNCTION,
    GATHERS,
    INTEGER_UNIT,
    LOADS,
    PURE,
    READS,
    REGULAR,
    SPREADS,
    TERMINATOR,
    VIEW,
    WRITES,
)

# Enums of Triton's TritonAttrDefs.td. In an attribute dictionary, MLIR prints their numbers.
_PADDING = {"padding": {1: "zero", 2: "nan"}}
_CACHE = {
    "cache": {1: "none", 2: "ca", 3: "cg", 4: "wb", 5: "cs", 6: "wt", 7: "cv"},
    "evict": {1: "evict_normal", 2: "evict_first", 3: "evict_last"},
}
_ATOMIC = {
    "atomic_rmw_op": {
        1: "and", 2: "or", 3: "xor", 4: "add", 5: "fadd",
        6: "max", 7: "min", 8: "umax", 9: "umin", 10: "exch",
    },
    "sem": {1: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel"},
    "scope": {1: "gpu", 2: "cta", 3: "sys"},
}  # fmt: skip
_PROPAGATE_NAN = {"propagateNan": {0: "none", 0xFFFF: "all"}}
_INPUT_PRECISION = {"inputPrecision": {0: "tf32", 1: "tf32x3", 2: "ieee", 3: "bf16x3", 4: "bf16x6"}}

# Triton 3.9 stores the cache modifier and the eviction policy in one attribute. The parser splits
# it, so that the IR is the same for all versions.
_CACHE_POLICY = {"cachePolicy": {"cache_modifier": "cache", "eviction_policy": "evict"}}
_CACHE_CLAUSES = (
    "oilist(`cacheModifier` `=` keyword($cache) | `evictionPolicy` `=` keyword($evict))"
)
_CONVERT = "$src attr-dict `:` type($src) `->` type($result)"
_PAIR = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"
_PROGRAM_DIMENSION = "dimension($axis) attr-dict `:` type($result)"
_TERMINATOR = "attr-dict ($srcs* `:` type($srcs*))?"
_COMBINE_RETURN = "$result* attr-dict `:` type($result*)"

_MEMORY = {
    "tt.load": Op(
        f"$ptr (`,` $mask)? (`,` $other)? {_CACHE_CLAUSES} attr-dict `:` type($ptr)",
        ("pointee(ptr)",),
        _CACHE | _PADDING,
        _CACHE_POLICY,
        traits=frozenset({READS, LOADS}),
        noun="load",
    ),
    "tt.store": Op(
        f"$ptr `,` $value (`,` $mask)? {_CACHE_CLAUSES} attr-dict `:` type($ptr)",
        (),
        _CACHE,
        _CACHE_POLICY,
        traits=frozenset({WRITES}),
        noun="store",
    ),
    "tt.atomic_rmw": Op(
        "keyword($atomic_rmw_op) `,` keyword($sem) `,` keyword($scope) `,` $ptr `,` $val"
        " (`,` $mask)? attr-dict `:` functional-type",
        ("results",),
        _ATOMIC,
        traits=frozenset({READS, WRITES, ATOMIC}),
        noun="atomic",
    ),
    "tt.atomic_cas": Op(
        "keyword($sem) `,` keyword($scope) `,` $ptr `,` $cmp `,` $val attr-dict `:`"
        " functional-type",
        ("results",),
        _ATOMIC,
        traits=frozenset({READS, WRITES, ATOMIC}),
        noun="atomic",
    ),
    # Triton 3.9 added the following three operations. `parser.polls` replaces each `tt.atomic_poll`
    # by a loop around a `tt.atomic_load`.
    "tt.atomic_load": Op(
        "keyword($sem) `,` keyword($scope) `,` $ptr (`,` $mask)? attr-dict `:` functional-type",
        ("results",),
        _ATOMIC,
        traits=frozenset({READS, ATOMIC}),
        noun="load",
    ),
    "tt.atomic_store": Op(
        "keyword($sem) `,` keyword($scope) `,` $ptr `,` $value (`,` $mask)? attr-dict `:`"
        " type($ptr)",
        (),
        _ATOMIC,
        traits=frozenset({WRITES, ATOMIC}),
        noun="store",
    ),
    "tt.atomic_poll": Op(
        "keyword($sem) `,` keyword($scope) `,` $ptr `,` $expected (`timeout` $timeout)?"
        " attr-dict `:` type($ptr) `,` type($expected) `->` type($result)",
        enums=_ATOMIC,
        traits=frozenset({READS, ATOMIC}),
        noun="load",
    ),
    "tt.addptr": Op(
        "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)",
        traits=frozenset({PURE, ELEMENTWISE, REGULAR, AXIS_INFO, DISPLACES}),
        python="Add",
        integer=displaced,
    ),
    # Block pointers exist up to Triton 3.8.
    "tt.make_tensor_ptr": Op(
        "$base `,` `[` $shape* `]` `,` `[` $strides* `]` `,` `[` $offsets* `]` attr-dict `:`"
        " short-type($result, tt.ptr)",
        operands=("base", "shape", "strides", "offsets"),
        traits=frozenset({PURE}),
    ),
    "tt.advance": Op(
        "$ptr `,` `[` $offsets* `]` attr-dict `:` short-type($result, tt.ptr)",
        traits=frozenset({PURE}),
    ),
}

_DESCRIPTORS = {
    "tt.make_tensor_descriptor": Op(
        "$base `,` `[` $shape* `]` `,` `[` $strides* `]` attr-dict `:`"
        " short-type($base, tt.ptr) `,` short-type($result, tt.tensordesc)",
        enums=_PADDING,
        operands=("base", "shape", "strides"),
        traits=frozenset({PURE}),
    ),
    "tt.descriptor_load": Op(
        f"$desc `[` $indices* `]` {_CACHE_CLAUSES} attr-dict `:` type($desc) `->` type($result)",
        enums=_CACHE,
        parts=_CACHE_POLICY,
        traits=frozenset({READS}),
    ),
    "tt.descriptor_store": Op(
        "$desc `[` $indices* `]` `,` $src attr-dict `:` type($desc) `,` type($src)",
        (),
        operands=("desc", "src", "indices"),
        traits=frozenset({WRITES}),
    ),
    "tt.descriptor_reduce": Op(
        "keyword($kind) `,` $desc `[` $indices* `]` `,` $src attr-dict `:`"
        " type($desc) `,` type($src)",
        (),
        operands=("desc", "src", "indices"),
        traits=frozenset({READS, WRITES}),
    ),
    "tt.descriptor_gather": Op(
        "$desc `[` $x_offsets `,` $y_offset `]` attr-dict `:` functional-type",
        ("results",),
        traits=frozenset({READS}),
    ),
    "tt.descriptor_scatter": Op(
        "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type($operands*)",
        (),
        traits=frozenset({WRITES}),
    ),
}

_ELEMENTWISE = {
    "tt.int_to_ptr": Op(_CONVERT, traits=frozenset({PURE, ELEMENTWISE, CAST, AXIS_INFO})),
    "tt.ptr_to_int": Op(_CONVERT, traits=frozenset({PURE, ELEMENTWISE, CAST, AXIS_INFO})),
    "tt.bitcast": Op(_CONVERT, traits=frozenset({PURE, ELEMENTWISE, CAST, AXIS_INFO, CHOOSES})),
    "tt.fp_to_fp": Op(
        "$src attr-dict (`,` `rounding` `=` keyword($rounding))? `:` type($src) `->` type($result)",
        enums={"rounding": {0: "rtz", 1: "rtne"}},
        traits=frozenset({PURE, ELEMENTWISE, CAST}),
    ),
    "tt.clampf": Op(
        "$x `,` $min `,` $max `,` `propagateNan` `=` keyword($propagateNan) attr-dict `:`"
        " type($result)",
        enums=_PROPAGATE_NAN,
        traits=frozenset({PURE, ELEMENTWISE, CHOOSES}),
        unit="compare",
    ),
    "tt.precise_sqrt": Op(
        "$x attr-dict `:` type($result)",
        traits=frozenset({PURE, ELEMENTWISE}),
        unit="function",
        invalid="root",
    ),
    "tt.precise_divf": Op(
        "$x `,` $y attr-dict `:` type($result)",
        traits=frozenset({PURE, ELEMENTWISE}),
        unit="divide",
        invalid="quotient",
    ),
    # Created by `tl.fdiv(x, y, approx=True)` from Triton 3.9 on.
    "tt.approx_divf": Op(
        "$x `,` $y attr-dict `:` type($result)",
        traits=frozenset({PURE, ELEMENTWISE}),
        unit="divide",
        invalid="quotient",
    ),
    "tt.mulhiui": Op(
        "$x `,` $y attr-dict `:` type($result)",
        traits=frozenset({PURE, ELEMENTWISE, INTEGER_UNIT}),
        integer=high_product,
    ),
    "tt.extern_elementwise": Op(
        "$srcs* attr-dict `:` functional-type",
        ("results",),
        traits=frozenset({ELEMENTWISE}),
        unit="library",
    ),
    "tt.elementwise_inline_asm": Op(
        "string($asm_string) attr-dict ($args* `:` type($args*))? `->` type($result*)",
        traits=frozenset({ELEMENTWISE}),
    ),
}

_SHAPES = {
    "tt.splat": Op(_CONVERT, traits=frozenset({PURE, VIEW, SPREADS}), lanes=splat),
    "tt.unsplat": Op(
        "$src attr-dict `:` type($src)",
        ("element(src)",),
        traits=frozenset({PURE, VIEW}),
        lanes=first_element,
    ),
    "tt.expand_dims": Op(_CONVERT, traits=frozenset({PURE, VIEW, SPREADS}), lanes=expand_dims),
    "tt.broadcast": Op(_CONVERT, traits=frozenset({PURE, VIEW, SPREADS}), lanes=broadcast),
    "tt.trans": Op(_CONVERT, traits=frozenset({PURE, VIEW, CROSS_THREAD}), lanes=transpose),
    "tt.reshape": Op(
        "$src (`allow_reorder` presence($allow_reorder))?"
        " (`efficient_layout` presence($efficient_layout))? attr-dict `:`"
        " type($src) `->` type($result)",
        traits=frozenset({PURE, VIEW, SPREADS, CROSS_THREAD}),
        lanes=reshape,
    ),
    "tt.cat": Op(_PAIR, traits=frozenset({PURE, CROSS_LANE, CROSS_THREAD}), lanes=any_order),
    "tt.join": Op(_PAIR, traits=frozenset({PURE, VIEW, CROSS_THREAD}), lanes=join),
    "tt.split": Op(
        "$src attr-dict `:` type($src) `->` type($outLHS)",
        ("outLHS", "outLHS"),
        traits=frozenset({PURE, VIEW, CROSS_THREAD}),
        lanes=split,
    ),
    "tt.make_range": Op(
        "attr-dict `:` type($result)",
        traits=frozenset({PURE, FROM_COORDINATES}),
        integer=make_range,
    ),
}

_TILES = {
    "tt.dot": Op(
        "$a `,` $b `,` $c (`,` `inputPrecision` `=` keyword($inputPrecision))? attr-dict `:`"
        " type($a) `*` type($b) `->` type($d)",
        ("d",),
        _INPUT_PRECISION,
        traits=frozenset({PURE, CROSS_LANE, CROSS_THREAD}),
    ),
    "tt.dot_scaled": Op(
        "$a (`scale` $a_scale)? `,` $b (`scale` $b_scale)? `,` $c"
        " `lhs` `=` keyword($a_elem_type) `rhs` `=` keyword($b_elem_type) attr-dict `:`"
        " type($a) (`,` type($a_scale))? `*` type($b) (`,` type($b_scale))? `->` type($d)",
        ("d",),
        operands=("a", "b", "c", "a_scale", "b_scale"),
        traits=frozenset({PURE, CROSS_LANE, CROSS_THREAD}),
    ),
    "tt.histogram": Op(
        "$src (`,` $mask)? attr-dict `:` type($src) `->` type($result)",
        traits=frozenset({PURE, CROSS_LANE, CROSS_THREAD, COUNTS}),
    ),
    "tt.gather": Op(
        "$src `[` $indices `]` attr-dict `:` functional-type",
        ("results",),
        traits=frozenset({PURE, GATHERS, CHOOSES, CROSS_THREAD}),
    ),
    "tt.reduce.return": Op(_COMBINE_RETURN, (), traits=frozenset({PURE, TERMINATOR})),
    "tt.scan.return": Op(_COMBINE_RETURN, (), traits=frozenset({PURE, TERMINATOR})),
    "tt.map_elementwise.return": Op(_TERMINATOR, (), traits=frozenset({PURE, TERMINATOR})),
}

_PROGRAM = {
    "tt.get_program_id": Op(_PROGRAM_DIMENSION, traits=frozenset({PURE}), integer=program_id),
    "tt.get_num_programs": Op(_PROGRAM_DIMENSION, traits=frozenset({PURE}), integer=num_programs),
    "tt.print": Op(
        "string($prefix) attr-dict (`:` $args* `:` type($args*))?", (), traits=frozenset({EFFECT})
    ),
    "tt.assert": Op(
        "$condition `,` string($message) attr-dict `:` type($condition)",
        (),
        traits=frozenset({EFFECT}),
    ),
    "tt.call": Op(
        "symbol($callee) `(` $operands* `)` attr-dict `:` functional-type",
        ("results",),
        traits=frozenset({CALL, CROSS_THREAD}),
    ),
    "tt.return": Op(_TERMINATOR, (), traits=frozenset({TERMINATOR})),
    "tt.grid_dependency_wait": Op("attr-dict", (), traits=frozenset({EFFECT})),
    "tt.grid_dependency_launch_dependents": Op("attr-dict", (), traits=frozenset({EFFECT})),
}

# These operations are printed in MLIR's generic form, or have a custom parser, so they need no
# format.
_COMBINING = {
    "tt.reduce": Op(traits=frozenset({PURE, COMBINES, CROSS_LANE, CROSS_THREAD})),
    "tt.scan": Op(traits=frozenset({PURE, COMBINES, CROSS_LANE, CROSS_THREAD})),
    # This operation is not PURE, because its function may have effects.
    "tt.map_elementwise": Op(traits=frozenset({COMBINES, CROSS_LANE})),
    "tt.func": Op(traits=frozenset({FUNCTION})),
    "tt.barrier": Op(traits=frozenset({BARRIER})),
}

OPERATIONS: dict[str, Op] = (
    _COMBINING | _MEMORY | _DESCRIPTORS | _ELEMENTWISE | _SHAPES | _TILES | _PROGRAM
)
