"""The `tt` dialect: Triton's own operations, of Triton 3.6 to 3.9.

Formats are those of Triton's include/triton/Dialect/Triton/IR/TritonOps.td. `tt.func` has a syntax
of its own, read in `ttools.interpreter.parser.structured`; `tt.reduce`, `tt.scan` and
`tt.map_elementwise` are printed in MLIR's generic form.
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

# TritonAttrDefs.td; shown as numbers where an attribute dictionary holds them.
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

# Triton 3.9 holds both in one attribute; they are split so that every version reads the same.
_CACHE_POLICY = {"cachePolicy": {"cache_modifier": "cache", "eviction_policy": "evict"}}
_CACHE_CLAUSES = (
    "oilist(`cacheModifier` `=` keyword($cache) | `evictionPolicy` `=` keyword($evict))"
)
_CONVERT = OpSyntax("$src attr-dict `:` type($src) `->` type($result)")
_PAIR = OpSyntax("$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)")
_PROGRAM_DIMENSION = OpSyntax("dimension($axis) attr-dict `:` type($result)")
_BARE = OpSyntax("attr-dict", ())
_TERMINATOR = OpSyntax("attr-dict ($srcs* `:` type($srcs*))?", ())
_COMBINE_RETURN = OpSyntax("$result* attr-dict `:` type($result*)", ())

_MEMORY = {
    "tt.load": OpSyntax(
        f"$ptr (`,` $mask)? (`,` $other)? {_CACHE_CLAUSES} attr-dict `:` type($ptr)",
        ("pointee(ptr)",),
        _CACHE | _PADDING,
        _CACHE_POLICY,
    ),
    "tt.store": OpSyntax(
        f"$ptr `,` $value (`,` $mask)? {_CACHE_CLAUSES} attr-dict `:` type($ptr)",
        (),
        _CACHE,
        _CACHE_POLICY,
    ),
    "tt.atomic_rmw": OpSyntax(
        "keyword($atomic_rmw_op) `,` keyword($sem) `,` keyword($scope) `,` $ptr `,` $val"
        " (`,` $mask)? attr-dict `:` functional-type",
        ("results",),
        _ATOMIC,
    ),
    "tt.atomic_cas": OpSyntax(
        "keyword($sem) `,` keyword($scope) `,` $ptr `,` $cmp `,` $val attr-dict `:`"
        " functional-type",
        ("results",),
        _ATOMIC,
    ),
    "tt.addptr": OpSyntax("$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)"),
    # Block pointers, up to Triton 3.8.
    "tt.make_tensor_ptr": OpSyntax(
        "$base `,` `[` $shape* `]` `,` `[` $strides* `]` `,` `[` $offsets* `]` attr-dict `:`"
        " short-type($result, tt.ptr)",
        operands=("base", "shape", "strides", "offsets"),
    ),
    "tt.advance": OpSyntax("$ptr `,` `[` $offsets* `]` attr-dict `:` short-type($result, tt.ptr)"),
}

_DESCRIPTORS = {
    "tt.make_tensor_descriptor": OpSyntax(
        "$base `,` `[` $shape* `]` `,` `[` $strides* `]` attr-dict `:`"
        " short-type($base, tt.ptr) `,` short-type($result, tt.tensordesc)",
        enums=_PADDING,
        operands=("base", "shape", "strides"),
    ),
    "tt.descriptor_load": OpSyntax(
        f"$desc `[` $indices* `]` {_CACHE_CLAUSES} attr-dict `:` type($desc) `->` type($result)",
        enums=_CACHE,
        parts=_CACHE_POLICY,
    ),
    "tt.descriptor_store": OpSyntax(
        "$desc `[` $indices* `]` `,` $src attr-dict `:` type($desc) `,` type($src)",
        (),
        operands=("desc", "src", "indices"),
    ),
    "tt.descriptor_reduce": OpSyntax(
        "keyword($kind) `,` $desc `[` $indices* `]` `,` $src attr-dict `:`"
        " type($desc) `,` type($src)",
        (),
        operands=("desc", "src", "indices"),
    ),
    "tt.descriptor_gather": OpSyntax(
        "$desc `[` $x_offsets `,` $y_offset `]` attr-dict `:` functional-type", ("results",)
    ),
    "tt.descriptor_scatter": OpSyntax(
        "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type($operands*)", ()
    ),
}

_ELEMENTWISE = {
    "tt.int_to_ptr": _CONVERT,
    "tt.ptr_to_int": _CONVERT,
    "tt.bitcast": _CONVERT,
    "tt.fp_to_fp": OpSyntax(
        "$src attr-dict (`,` `rounding` `=` keyword($rounding))? `:` type($src) `->` type($result)",
        enums={"rounding": {0: "rtz", 1: "rtne"}},
    ),
    "tt.clampf": OpSyntax(
        "$x `,` $min `,` $max `,` `propagateNan` `=` keyword($propagateNan) attr-dict `:`"
        " type($result)",
        enums=_PROPAGATE_NAN,
    ),
    "tt.precise_sqrt": OpSyntax("$x attr-dict `:` type($result)"),
    "tt.precise_divf": OpSyntax("$x `,` $y attr-dict `:` type($result)"),
    "tt.mulhiui": OpSyntax("$x `,` $y attr-dict `:` type($result)"),
    "tt.extern_elementwise": OpSyntax("$srcs* attr-dict `:` functional-type", ("results",)),
    "tt.elementwise_inline_asm": OpSyntax(
        "string($asm_string) attr-dict ($args* `:` type($args*))? `->` type($result*)"
    ),
}

_SHAPES = {
    "tt.splat": _CONVERT,
    "tt.unsplat": OpSyntax("$src attr-dict `:` type($src)", ("element(src)",)),
    "tt.expand_dims": _CONVERT,
    "tt.broadcast": _CONVERT,
    "tt.trans": _CONVERT,
    "tt.reshape": OpSyntax(
        "$src (`allow_reorder` presence($allow_reorder))?"
        " (`efficient_layout` presence($efficient_layout))? attr-dict `:`"
        " type($src) `->` type($result)"
    ),
    "tt.cat": _PAIR,
    "tt.join": _PAIR,
    "tt.split": OpSyntax("$src attr-dict `:` type($src) `->` type($outLHS)", ("outLHS", "outLHS")),
    "tt.make_range": OpSyntax("attr-dict `:` type($result)"),
}

_TILES = {
    "tt.dot": OpSyntax(
        "$a `,` $b `,` $c (`,` `inputPrecision` `=` keyword($inputPrecision))? attr-dict `:`"
        " type($a) `*` type($b) `->` type($d)",
        ("d",),
        _INPUT_PRECISION,
    ),
    "tt.dot_scaled": OpSyntax(
        "$a (`scale` $a_scale)? `,` $b (`scale` $b_scale)? `,` $c"
        " `lhs` `=` keyword($a_elem_type) `rhs` `=` keyword($b_elem_type) attr-dict `:`"
        " type($a) (`,` type($a_scale))? `*` type($b) (`,` type($b_scale))? `->` type($d)",
        ("d",),
        operands=("a", "b", "c", "a_scale", "b_scale"),
    ),
    "tt.histogram": OpSyntax("$src (`,` $mask)? attr-dict `:` type($src) `->` type($result)"),
    "tt.gather": OpSyntax("$src `[` $indices `]` attr-dict `:` functional-type", ("results",)),
    "tt.reduce.return": _COMBINE_RETURN,
    "tt.scan.return": _COMBINE_RETURN,
    "tt.map_elementwise.return": _TERMINATOR,
}

_PROGRAM = {
    "tt.get_program_id": _PROGRAM_DIMENSION,
    "tt.get_num_programs": _PROGRAM_DIMENSION,
    "tt.print": OpSyntax("string($prefix) attr-dict (`:` $args* `:` type($args*))?", ()),
    "tt.assert": OpSyntax("$condition `,` string($message) attr-dict `:` type($condition)", ()),
    "tt.call": OpSyntax(
        "symbol($callee) `(` $operands* `)` attr-dict `:` functional-type", ("results",)
    ),
    "tt.return": _TERMINATOR,
    "tt.grid_dependency_wait": _BARE,
    "tt.grid_dependency_launch_dependents": _BARE,
}

OPERATIONS: dict[str, OpSyntax] = (
    _MEMORY | _DESCRIPTORS | _ELEMENTWISE | _SHAPES | _TILES | _PROGRAM
)
