"""Rows of operations on tiles: reductions, scans, products, sorting, random numbers, atomics."""

from __future__ import annotations

from dataclasses import replace

from tools.gpu_op_table.rows import (
    EXACT,
    FLOATS,
    INTEGERS,
    Bound,
    Input,
    Output,
    Row,
    Sample,
)

_TILE = (16, 128)
_WIDE = {"i8": "i32", "i16": "i32", "u8": "u32", "u16": "u32"}
_ORDER = "sums are added in another order"
_NARROW = "a GPU adds in another order, and rounds every sum to the type"
#: Error bound for a sum of 128 values in (-1, 1): 8 roundings of partial sums smaller than 16 in
#: magnitude.
_CANCELLING = {"f64": 2.0**-46, "f32": 2.0**-17, "f16": 2.0**-4, "bf16": 0.5}


def rows() -> list[Row]:
    """Return the rows in the order of the report."""
    return [
        *_reductions(),
        *_scans(),
        *_products(),
        *_permutations(),
        *_random(),
        *_atomics(),
    ]


def _tile(
    family: str,
    name: str,
    dtype: str,
    expression: str,
    result: str,
    shape: tuple[int, ...],
    sample: Sample,
    bound: Bound = EXACT,
) -> Row:
    return Row(
        family=family,
        name=name,
        types=dtype,
        inputs=(Input(dtype, sample, _TILE),),
        outputs=(Output(result, shape),),
        body=f"{{0}} = {expression}",
        bound=bound,
    )


def _reductions() -> list[Row]:
    rows = []
    for dtype in (*FLOATS, *INTEGERS):
        wide = _WIDE.get(dtype, dtype)
        whole: Sample = "whole" if dtype in FLOATS else "any"
        column = (16,)
        rows.append(_tile("reduction", "sum", dtype, "tl.sum(x, axis=1)", wide, column, whole))
        sample: Sample = "any"
        for name in ("max", "min"):
            expression = f"tl.{name}(x, axis=1)"
            rows.append(_tile("reduction", name, dtype, expression, wide, column, sample))
        for name in ("argmax", "argmin"):
            ordered: Sample = "ordered" if dtype in FLOATS else "whole"
            expression = f"tl.{name}(x, axis=1)"
            rows.append(_tile("reduction", name, dtype, expression, "i32", column, ordered))
        if dtype in INTEGERS:
            expression = "tl.xor_sum(x, axis=1)"
            rows.append(_tile("reduction", "xor_sum", dtype, expression, dtype, column, "any"))
    for dtype, bound in (
        ("f64", Bound(8, why=_ORDER)),
        ("f32", Bound(8, why=_ORDER)),
        ("f16", Bound(8, why=_NARROW)),
        ("bf16", Bound(8, why=_NARROW)),
    ):
        wide = _WIDE.get(dtype, dtype)
        interval = (0.0, 1.0)
        name, expression = "sum of positive fractions", "tl.sum(x, axis=1)"
        rows.append(_tile("reduction", name, dtype, expression, wide, (16,), interval, bound))
        name = "sum of fractions"
        error = _CANCELLING[dtype]
        bound = Bound(8, error, bound.why)
        rows.append(_tile("reduction", name, dtype, expression, wide, (16,), (-1.0, 1.0), bound))
    name, expression = "reduce(combine), axis 0", "tl.reduce(x, 0, combine_maximum)"
    rows.append(_tile("reduction", name, "f32", expression, "f32", (128,), "any"))
    return rows


def _scans() -> list[Row]:
    rows = []
    for dtype in ("f64", "f32", "f16", "i8", "i32", "i64", "u32"):
        whole: Sample = "whole" if dtype in FLOATS else "any"
        result = "i32" if dtype == "i8" else dtype
        for name, expression in (
            ("cumsum", "tl.cumsum(x, axis=1)"),
            ("cumsum, reverse", "tl.cumsum(x, axis=1, reverse=True)"),
            ("associative_scan of maximum", "tl.associative_scan(x, 1, combine_maximum)"),
        ):
            kind = result if name.startswith("cumsum") else dtype
            rows.append(_tile("scan", name, dtype, expression, kind, _TILE, whole))
    for dtype in ("i32", "i64"):
        expression = "tl.cumprod(x, axis=1)"
        rows.append(_tile("scan", "cumprod", dtype, expression, dtype, _TILE, "any"))
    why = "partial results are combined in another order"
    for name, expression, interval in (
        ("cumsum of positive fractions", "tl.cumsum(x, axis=1)", (0.0, 1.0)),
        ("cumprod", "tl.cumprod(x, axis=1)", (0.8, 1.25)),
    ):
        bound = Bound(32, why=why)
        rows.append(_tile("scan", name, "f32", expression, "f32", _TILE, interval, bound))
    for dtype in ("f32", "f16", "bf16"):
        bound = Bound(8, 2 * _CANCELLING[dtype], _NARROW if dtype != "f32" else why)
        for name, expression in (
            ("cumsum of fractions", "tl.cumsum(x, axis=1)"),
            ("associative_scan of sums", "tl.associative_scan(x, 1, combine_sum)"),
        ):
            wide = "f32" if dtype == "bf16" and name.startswith("cumsum") else dtype
            rows.append(_tile("scan", name, dtype, expression, wide, _TILE, (-1.0, 1.0), bound))
    rows.append(
        Row(
            family="scan",
            name="associative_scan of a pair",
            types="i32",
            inputs=(Input("i32", "any", _TILE), Input("i32", "whole", _TILE)),
            outputs=(Output("i32", _TILE), Output("i32", _TILE)),
            body="{0}, {1} = tl.associative_scan((x, y), 1, combine_affine)",
        )
    )
    return rows


_EIGHT = "products of 8-bit floats are added with about 14 bits of fraction on Hopper"
_TENSOR = "tensor cores truncate what they add"
_OVERFLOWING = "tensor cores hold larger sums than an f32 between the first product and the last"


def _dot(
    dtype: str,
    name: str,
    sample: Sample,
    bound: Bound,
    arguments: str = "",
    result: str = "f32",
    size: int = 64,
) -> Row:
    shape = (size, size)
    return Row(
        family="dot",
        name=name,
        types=dtype,
        inputs=(Input(dtype, sample, shape), Input(dtype, sample, shape)),
        outputs=(Output(result, shape),),
        body=f"{{0}} = tl.dot(x, y{arguments})",
        bound=bound,
    )


def _products() -> list[Row]:
    integers = [
        _dot(dtype, "whole numbers", "whole", EXACT)
        for dtype in ("f16", "bf16", "fp8e4nv", "fp8e5", "f32")
    ]
    one: Sample = (-1.0, 1.0)
    return [
        *integers,
        _dot("i8", "all values", "any", EXACT, ", out_dtype=tl.int32", "i32"),
        _dot("f64", "whole numbers", "whole", EXACT, ", out_dtype=tl.float64", "f64"),
        _dot("f16", "f16 result", "whole", EXACT, ", out_dtype=tl.float16", "f16"),
        _dot("f16", "fractions", one, Bound(absolute=1e-5, why=_TENSOR)),
        _dot("bf16", "fractions", one, Bound(absolute=1e-5, why=_TENSOR)),
        _dot("fp8e4nv", "fractions", one, Bound(absolute=5e-3, why=_EIGHT)),
        _dot("fp8e5", "fractions", one, Bound(absolute=5e-3, why=_EIGHT)),
        _dot("f32", "fractions, tf32 (the default)", one, Bound(absolute=1e-5, why=_TENSOR)),
        *(
            _dot(
                *("f32", f"{name}, {precision}, tile {size}", sample, bound),
                f', input_precision="{precision}"',
                size=size,
            )
            for size in (16, 64)
            for name, sample, error in (("fractions", one, 1e-5), ("positive", (0.0, 1.0), 4e-5))
            for precision, bound in (
                *(
                    (precision, Bound(absolute=error, why=_TENSOR))
                    for precision in ("tf32", "tf32x3", "bf16x3", "bf16x6")
                ),
                ("ieee", EXACT),
            )
        ),
        *(
            replace(
                _dot(
                    "f32",
                    f"all values, {precision}",
                    "any",
                    Bound(8, 1e-30, _TENSOR),
                    f', input_precision="{precision}"',
                    size=16,
                ),
                deviation=deviation,
            )
            for precision, deviation in (("tf32", _OVERFLOWING), ("ieee", ""))
        ),
    ]


def _permutations() -> list[Row]:
    rows = []
    for dtype in ("f64", "f32", "f16", "i8", "u8", "i16", "i32", "i64"):
        ordered: Sample = "ordered" if dtype in FLOATS else "any"
        for name, expression, shape in (
            ("sort", "tl.sort(x, dim=1)", _TILE),
            ("sort, descending", "tl.sort(x, dim=1, descending=True)", _TILE),
            ("topk of 8", "tl.topk(x, 8, dim=1)", (16, 8)),
        ):
            rows.append(_tile("sorting", name, dtype, expression, dtype, shape, ordered))
    for dtype in ("f32", "f16", "i8", "i64"):
        rows.append(
            Row(
                family="sorting",
                name="gather",
                types=dtype,
                inputs=(Input(dtype, "any", _TILE), Input("i32", (0, 128), _TILE)),
                outputs=(Output(dtype, _TILE),),
                body="{0} = tl.gather(x, y, axis=1)",
            )
        )
        rows.append(_tile("sorting", "flip", dtype, "tl.flip(x, 1)", dtype, _TILE, "any"))
    rows.append(
        Row(
            family="sorting",
            name="histogram of 64 bins",
            types="i32",
            inputs=(Input("i32", (0, 64), (1024,)),),
            outputs=(Output("i32", (64,)),),
            body="{0} = tl.histogram(x, 64)",
        )
    )
    return rows


def _random() -> list[Row]:
    normal = Bound(8, 1e-5, "randn takes log, sqrt and cos of uniform numbers")
    specification: tuple[tuple[str, str, str, Bound], ...] = (
        ("randint", "tl.randint(1234, x)", "u32", EXACT),
        ("rand", "tl.rand(1234, x)", "f32", EXACT),
        ("randn", "tl.randn(1234, x)", "f32", normal),
    )
    rows = [
        Row(
            family="random",
            name=name,
            types=f"{dtype} → {result}",
            inputs=(Input(dtype),),
            outputs=(Output(result),),
            body=f"{{0}} = {expression}",
            bound=bound,
        )
        for dtype in ("i32", "i64")
        for name, expression, result, bound in specification
    ]
    for name, result in (("randint4x", "u32"), ("rand4x", "f32")):
        rows.append(
            Row(
                family="random",
                name=name,
                types=f"i32 → {result}",
                inputs=(Input("i32"),),
                outputs=(Output(result),) * 4,
                body=f"{{0}}, {{1}}, {{2}}, {{3}} = tl.{name}(987654321, x)",
            )
        )
    return rows


_ATOMICS: dict[str, tuple[str, ...]] = {
    "add": ("i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"),
    "max": ("i32", "u32", "i64", "u64", "f32", "f64"),
    "min": ("i32", "u32", "i64", "u64", "f32", "f64"),
    "and": ("i32", "u32", "i64"),
    "or": ("i32", "u32", "i64"),
    "xor": ("i32", "u32", "i64"),
    "xchg": ("i32", "u32", "i64", "f32", "f64"),
}
_PROGRAMS = 8


def _atomics() -> list[Row]:
    rows = []
    for name, dtypes in _ATOMICS.items():
        for dtype in dtypes:
            rows.append(_lone_atomic(name, dtype))
            if name != "xchg":
                rows.append(_contended_atomic(name, dtype))
    rows += [_compare_and_swap(dtype) for dtype in ("i32", "i64", "u32")]
    return rows


def _lone_atomic(name: str, dtype: str) -> Row:
    """Return a row in which each lane has its own address, so all results are determined."""
    count = 1024
    sample: Sample = "ordered" if dtype in FLOATS else "any"
    return Row(
        family="atomic",
        name=f"atomic_{name}: returned and left",
        types=dtype,
        inputs=(Input(dtype, sample, (count,)),),
        outputs=(Output(dtype, (count,), 5, stored=False), Output(dtype, (count,))),
        body=f"{{1}} = tl.atomic_{name}({{0}}_ptr + tl.arange(0, {count}), x)",
    )


def _contended_atomic(name: str, dtype: str) -> Row:
    """Return a row in which lanes share addresses, so only the final memory is determined."""
    sample: Sample = "whole" if dtype in FLOATS else "any"
    return Row(
        family="atomic",
        name=f"atomic_{name}: left by {_PROGRAMS} programs on 16 addresses",
        types=dtype,
        inputs=(Input(dtype, sample, (256,)),),
        outputs=(Output(dtype, (16,), 1, stored=False),),
        body=f"tl.atomic_{name}({{0}}_ptr + tl.arange(0, 256) % 16, x)",
        programs=_PROGRAMS,
    )


def _compare_and_swap(dtype: str) -> Row:
    count = 256
    return Row(
        family="atomic",
        name="atomic_cas: returned and left",
        types=dtype,
        inputs=(Input(dtype, "whole", (count,)), Input(dtype, "any", (count,))),
        outputs=(Output(dtype, (count,), 2, stored=False), Output(dtype, (count,))),
        body=f"{{1}} = tl.atomic_cas({{0}}_ptr + tl.arange(0, {count}), x, y)",
    )
