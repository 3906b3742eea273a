"""PTX's floating-point instructions.

Approximate instructions are computed accurately. `ftz` flushes denormal operands and results to
zero, as on the GPU. Minimum and maximum ignore a NaN unless the instruction has the modifier
`.NaN`, and -0 is less than +0.
"""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.elementwise.directed import directed
from ttools.interpreter.elementwise.floating import (
    fused_16_bits,
    maximum,
    maximum_number,
    minimum,
    minimum_number,
)
from ttools.interpreter.elementwise.mathematics import evaluate
from ttools.interpreter.elementwise.ptx.forms import Form, Modifiers, Rule, forms
from ttools.interpreter.elementwise.ptx.machine import RefusedPtxError
from ttools.interpreter.elementwise.vector import Vector

_16 = "f16 f16x2 bf16 bf16x2"
_32 = "f32 f32x2"

#: PTX's rounding modes, and their names in `directed`.
ROUNDINGS = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
_SMALLEST_NORMAL = {"half": 2.0**-14, "float": 2.0**-126}


def flush(value: Vector) -> Vector:
    """Replace denormals by zeros of the same sign."""
    zero = value.lanes.intrinsic("copysign", value.coerce(0.0), value)
    return value.abs().compare("olt", _SMALLEST_NORMAL[value.scalar]).choose(zero, value)


def saturate(value: Vector) -> Vector:
    """Clamp to [0, 1]; NaN becomes 0."""
    return minimum_number(maximum_number(value, value.coerce(0.0)), value.coerce(1.0))


def rectify(value: Vector) -> Vector:
    """Replace values that are not greater than 0 by +0; NaN stays NaN."""
    return value.compare("ole", 0.0).choose(value.coerce(0.0), value)


def in_float(function: Callable[..., Vector]) -> Callable[..., Vector]:
    """Return a function that computes f16 in f32 and rounds the result."""

    def wrapped(*values: Vector) -> Vector:
        if values[0].scalar != "half":
            return function(*values)
        return function(*(v.cast("fpext", "float") for v in values)).cast("fptrunc", "half")

    return wrapped


def _with_flags(compute: Callable[[Modifiers, tuple[Vector, ...]], Vector]) -> Rule:
    """Return a rule that applies the modifiers `ftz`, `sat` and `relu` to a computation."""

    def rule(modifiers: Modifiers, *values: Vector) -> Vector:
        kind = modifiers.kind
        flushes = kind.scalar != "double" and modifiers.flag("ftz")
        saturates = kind.scalar != "double" and not kind.is_bf16 and modifiers.flag("sat")
        rectifies = kind.bits == 16 and modifiers.flag("relu")
        result = compute(modifiers, tuple(map(flush, values)) if flushes else values)
        result = flush(result) if flushes else result
        result = saturate(result) if saturates else result
        return rectify(result) if rectifies else result

    return rule


def _rounding(modifiers: Modifiers) -> str:
    mode = ROUNDINGS[modifiers.choice(*ROUNDINGS) or "rn"]
    if mode != "rn" and modifiers.kind.bits == 16:
        raise RefusedPtxError("a rounding mode of 16-bit floats")
    return mode


def _arithmetic(opcode: str) -> Rule:
    def compute(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
        mode = _rounding(modifiers)
        if mode != "rn":
            return directed(opcode, mode, *values)
        return values[0].binary(opcode, values[1])

    return _with_flags(compute)


def _divide(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
    if modifiers.choice("approx", "full") is None:
        mode = _rounding(modifiers)
        if mode != "rn":
            return directed("fdiv", mode, *values)
    return values[0] / values[1]


def _fused(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
    mode = _rounding(modifiers)
    kind = modifiers.kind
    if kind.bits == 16:
        return fused_16_bits(*values, bf16=kind.is_bf16)
    if mode != "rn":
        return directed("fma", mode, *values)
    return values[0].lanes.fma(*values)


def _extremum(number: Callable[..., Vector], strict: Callable[..., Vector]) -> Rule:
    def compute(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
        return in_float(strict if modifiers.flag("NaN") else number)(*values)

    return _with_flags(compute)


# ---- functions
def _approximate(function: Callable[[Vector], Vector]) -> Rule:
    def compute(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
        if not modifiers.flag("approx"):
            raise RefusedPtxError("only with .approx")
        return in_float(function)(*values)

    return _with_flags(compute)


def _named(name: str) -> Rule:
    return _approximate(lambda x: evaluate(name, x))


def _root(opcode: str, function: Callable[[Vector], Vector]) -> Rule:
    """Return the rule of `rcp` or `sqrt`, approximate or rounded."""

    def compute(modifiers: Modifiers, values: tuple[Vector, ...]) -> Vector:
        (x,) = values
        if not modifiers.flag("approx"):
            mode = _rounding(modifiers)
            if mode != "rn":
                operands = (x.coerce(1.0), x) if opcode == "fdiv" else (x,)
                return directed(opcode, mode, *operands)
        return function(x)

    return _with_flags(compute)


def _sqrt(x: Vector) -> Vector:
    return x.lanes.intrinsic("sqrt", x)


def _sign(function: Callable[[Vector], Vector]) -> Rule:
    """Return a rule for a function that changes only the sign; it supports `ftz`, too."""
    return _with_flags(lambda modifiers, values: function(values[0]))


def _copy_sign(modifiers: Modifiers, sign: Vector, magnitude: Vector) -> Vector:
    return sign.lanes.intrinsic("copysign", magnitude, sign)


def _is_subnormal(x: Vector) -> Vector:
    smallest = {"float": 2.0**-126, "double": 2.0**-1022}[x.scalar]
    return x.abs().compare("ogt", 0.0) & x.abs().compare("olt", smallest)


def _is_finite(x: Vector) -> Vector:
    return x.abs().compare("olt", float("inf"))


_CLASSES: dict[str, Callable[[Vector], Vector]] = {
    "finite": _is_finite,
    "infinite": lambda x: x.abs().compare("oeq", float("inf")),
    "number": lambda x: ~x.is_nan(),
    "notanumber": lambda x: x.is_nan(),
    # Zero counts as normal, as on a GPU.
    "normal": lambda x: _is_finite(x) & ~_is_subnormal(x),
    "subnormal": _is_subnormal,
}


def _test(modifiers: Modifiers, x: Vector) -> Vector:
    name = modifiers.choice(*_CLASSES)
    if name is None:
        raise RefusedPtxError("")
    return _CLASSES[name](x)


_ALL = f"{_16} {_32} f64"
FLOAT_FORMS: dict[str, Form] = {
    **forms("add", _ALL, _arithmetic("fadd"), "", ""),
    **forms("sub", _ALL, _arithmetic("fsub"), "", ""),
    **forms("mul", _ALL, _arithmetic("fmul"), "", ""),
    **forms("div", "f32 f64", _with_flags(_divide), "", ""),
    **forms("fma", _ALL, _with_flags(_fused), "", "", ""),
    **forms("mad", "f32 f64", _with_flags(_fused), "", "", ""),
    **forms("min", f"{_16} f32 f64", _extremum(minimum_number, minimum), "", ""),
    **forms("max", f"{_16} f32 f64", _extremum(maximum_number, maximum), "", ""),
    **forms("abs", f"{_16} f32 f64", _sign(lambda x: x.abs()), ""),
    **forms("neg", f"{_16} f32 f64", _sign(lambda x: -x), ""),
    **forms("copysign", "f32 f64", _copy_sign, "", ""),
    **forms("rcp", "f32 f64", _root("fdiv", lambda x: 1.0 / x), ""),
    **forms("sqrt", "f32 f64", _root("sqrt", _sqrt), ""),
    **forms("rsqrt", "f32 f64", _approximate(lambda x: 1.0 / _sqrt(x)), ""),
    **forms("ex2", f"{_16} f32", _named("exp2"), ""),
    **forms("lg2", "f32", _named("log2"), ""),
    **forms("sin", "f32", _named("sin"), ""),
    **forms("cos", "f32", _named("cos"), ""),
    **forms("tanh", f"{_16} f32", _named("tanh"), ""),
    **forms("testp", "f32 f64", _test, "", result="pred"),
}
