"""Integer arithmetic, with the results of an NVIDIA GPU where LLVM's would be undefined.

The amount of a shift is truncated to 32 bits and clamped, as by PTX's `shl` and `shr`. A division
by zero gives all ones; if both operands of an i64 division fit in 32 bits, only the lower 32 bits
are ones. A remainder by zero gives all ones, too. However, if the kernel also computes the quotient
of the same operands, LLVM derives the remainder from it, so `x % 0` is `x`. INT_MIN / -1 wraps
around.

CPUs have no vector instructions for integer division, so vectors of up to 32 bits are divided in
floating point. The truncated quotient is exact: a quotient of n-bit integers that is not an integer
differs from every integer by a relative distance of more than 2^-n, and the rounding error of the
format is smaller. Vectors of 64 bits are also divided in this way if every operand has at most 51
bits, which is tested at run time.
"""

from __future__ import annotations

import re

from ttools.interpreter.elementwise.vector import BITS, Call, Lowering, Vector
from ttools.interpreter.llvm.value import FALSE, Label

_LITERAL = re.compile(r"(?:splat \(i\d+ )?(-?\d+)\)?")


def literal_value(vector: Vector) -> int | None:
    """Return the integer that all lanes of a literal have; None for a name or unequal lanes."""
    match = _LITERAL.fullmatch(vector.text)
    return int(match[1]) if match else None


def _opcode(name: str) -> Lowering:
    def lower(call: Call) -> Vector:
        return call.operands[0].binary(name, call.operands[1])

    return lower


def _intrinsic(name: str) -> Lowering:
    def lower(call: Call) -> Vector:
        return call.lanes.intrinsic(name, *call.operands)

    return lower


# ---- division
def quotient(a: Vector, b: Vector, *, signed: bool) -> Vector:
    """Return `a / b` truncated; x / 0 is all ones, INT_MIN / -1 is INT_MIN."""
    divisor = literal_value(b)
    if divisor not in (None, 0, -1):
        return a.binary("sdiv" if signed else "udiv", b)
    if a.scalar == "i1":
        wide = quotient(_extend(a, "i8", signed), _extend(b, "i8", signed), signed=signed)
        return wide.cast("trunc", "i1")
    name = "sdiv" if signed else "udiv"
    body = _divide_float
    if a.lanes.width == 1:
        body = _divide_native
    elif BITS[a.scalar] == 64:
        body = _divide_wide
    return a.lanes.function(name, a.scalar, lambda x, y: body(x, y, signed), a, b)


def remainder(a: Vector, b: Vector, *, signed: bool) -> Vector:
    """Return `a - (a / b) * b`; x % 0 is x, INT_MIN % -1 is 0."""
    divisor = literal_value(b)
    if divisor not in (None, 0, -1):
        return a.binary("srem" if signed else "urem", b)
    return a - quotient(a, b, signed=signed) * b


def _lone_remainder(a: Vector, b: Vector, *, signed: bool) -> Vector:
    """Return the remainder if the quotient is not computed as well; x % 0 then equals x / 0."""
    divisor = literal_value(b)
    if divisor not in (None, 0, -1):
        return a.binary("srem" if signed else "urem", b)
    ratio = quotient(a, b, signed=signed)
    return b.compare("eq", 0).choose(ratio, a - ratio * b)


def _extend(a: Vector, scalar: str, signed: bool) -> Vector:
    return a.cast("sext" if signed else "zext", scalar)


def _divide_native(a: Vector, b: Vector, signed: bool) -> Vector:
    """Divide with the CPU's instruction, after replacing divisors for which it would trap."""
    zero = b.compare("eq", 0)
    if signed:
        minus_one = b.compare("eq", -1)
        safe = (zero | minus_one).choose(b.coerce(1), b)
        value = minus_one.choose(-a, a.binary("sdiv", safe))
    else:
        value = a.binary("udiv", zero.choose(b.coerce(1), b))
    ones = b.coerce(-1)
    if a.scalar == "i64":
        # GPUs divide in 32 bits if both operands fit.
        ones = a.compare("ult", 1 << 32).choose(b.coerce(0xFFFFFFFF), ones)
    return zero.choose(ones, value)


#: The bits of 1.5 * 2^52 as a double. Adding an integer of up to 51 bits to these bits gives the
#: bits of the double 1.5 * 2^52 + integer.
_MAGIC = 0x4338000000000000
_LIMIT = 1 << 50


def _divide_wide(a: Vector, b: Vector, signed: bool) -> Vector:
    """Divide vectors of 64-bit integers, as doubles if all operands are small."""
    lanes, builder = a.lanes, a.lanes.builder
    if signed:
        large = (a + _LIMIT) | (b + _LIMIT)
        large = large.compare("uge", 2 * _LIMIT)
    else:
        large = (a | b).compare("uge", _LIMIT)
    unfit = large | b.compare("eq", 0)
    wide, small, done = Label("large"), Label("small"), Label("done")
    builder.cond_branch(unfit.any_lane(), wide, small)
    builder.start(wide)
    native = _divide_native(a, b, signed)
    builder.branch(done)
    builder.start(small)
    ratio = _small_to_double(a) / _small_to_double(b)
    # Truncate explicitly, because adding the magic number rounds to nearest.
    whole = lanes.intrinsic("trunc", ratio)
    quick = (whole + 1.5 * 2.0**52).as_int() - _MAGIC
    builder.branch(done)
    builder.start(done)
    return lanes.value(builder.phi((native.text, wide), (quick.text, small)))


def _small_to_double(value: Vector) -> Vector:
    return (value + _MAGIC).as_float("double") - 1.5 * 2.0**52


def _divide_float(a: Vector, b: Vector, signed: bool) -> Vector:
    narrow = BITS[a.scalar] <= 16
    to_float, to_int = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    zero = b.compare("eq", 0)
    # A divisor of -1 is replaced, too, because INT_MIN / -1 does not fit in an i32, and converting
    # the float would give poison.
    minus_one = b.compare("eq", -1)
    unsafe = zero | minus_one if signed and not narrow else zero
    safe = unsafe.choose(b.coerce(1), b)
    scalar = "float" if narrow else "double"
    ratio = a.cast(to_float, scalar) / safe.cast(to_float, scalar)
    value = ratio.cast(to_int, "i32").cast("trunc", a.scalar)
    if signed and not narrow:
        value = minus_one.choose(-a, value)
    return zero.choose(b.coerce(-1), value)


def _division(signed: bool) -> Lowering:
    return lambda call: quotient(call.operands[0], call.operands[1], signed=signed)


def _remainder(signed: bool) -> Lowering:
    def lower(call: Call) -> Vector:
        division = "arith.divsi" if signed else "arith.divui"
        users = (user for user, _ in call.op.operands[1].uses)
        both = any(u.name == division and list(u.operands) == list(call.op.operands) for u in users)
        return (remainder if both else _lone_remainder)(*call.operands, signed=signed)

    return lower


def _lower_floordivsi(call: Call) -> Vector:
    a, b = call.operands
    q = quotient(a, b, signed=True)
    rest = a - q * b
    off = rest.compare("ne", 0) & (rest ^ b).compare("slt", 0)
    return off.choose(q - 1, q)


def _lower_ceildivsi(call: Call) -> Vector:
    a, b = call.operands
    q = quotient(a, b, signed=True)
    rest = a - q * b
    off = rest.compare("ne", 0) & (rest ^ b).compare("sge", 0)
    return off.choose(q + 1, q)


def _lower_ceildivui(call: Call) -> Vector:
    a, b = call.operands
    q = quotient(a, b, signed=False)
    return (a - q * b).compare("ne", 0).choose(q + 1, q)


# ---- shifts
def _shift(opcode: str) -> Lowering:
    def lower(call: Call) -> Vector:
        value, amount = call.operands
        bits = BITS[value.scalar]
        constant = literal_value(amount)
        if constant is not None and 0 <= constant < bits:
            return value.binary(opcode, amount)
        if bits == 64:
            amount = amount & 0xFFFFFFFF
        if opcode == "ashr":
            return value.binary(opcode, amount.minimum(bits - 1, signed=False))
        # The shift is poison if the amount is too large, but then the select does not choose it.
        inside = amount.compare("ult", bits) if bits > 1 else ~amount
        return inside.choose(value.binary(opcode, amount), 0)

    return lower


# ---- wide results
def high_product(a: Vector, b: Vector, *, signed: bool) -> Vector:
    """Return the upper half of the double-width product."""
    bits = BITS[a.scalar]
    wide = f"i{2 * bits}"
    product = _extend(a, wide, signed) * _extend(b, wide, signed)
    return (product >> bits).cast("trunc", a.scalar)


def _extended_product(signed: bool) -> Lowering:
    def lower(call: Call) -> tuple[Vector, ...]:
        a, b = call.operands
        return a * b, high_product(a, b, signed=signed)

    return lower


def _lower_addui_extended(call: Call) -> tuple[Vector, ...]:
    a, b = call.operands
    total = a + b
    return total, total.compare("ult", a)


# ---- bits
def count_zeros(name: str, value: Vector) -> Vector:
    """Return the number of leading (`ctlz`) or trailing (`cttz`) zeros; for 0, the bit count."""
    lanes = value.lanes
    full = f"llvm.{name}.{lanes.suffix(value.scalar)}"
    lanes.builder.declare(full, f"{value.type} ({value.type}, i1 immarg)")
    return lanes.value(lanes.builder.call(value.type, f"@{full}", value.text, FALSE))


def _count_zeros(name: str) -> Lowering:
    return lambda call: count_zeros(name, call.operands[0])


def _lower_absi(call: Call) -> Vector:
    (value,) = call.operands
    return value.maximum(-value)


INTEGER: dict[str, Lowering] = {
    **{f"arith.{name}i": _opcode(name) for name in ("add", "sub", "mul", "and", "or", "xor")},
    **{
        f"arith.{mlir}": _intrinsic(llvm)
        for mlir, llvm in (
            ("minsi", "smin"),
            ("maxsi", "smax"),
            ("minui", "umin"),
            ("maxui", "umax"),
        )
    },
    "arith.divsi": _division(signed=True),
    "arith.divui": _division(signed=False),
    "arith.remsi": _remainder(signed=True),
    "arith.remui": _remainder(signed=False),
    "arith.floordivsi": _lower_floordivsi,
    "arith.ceildivsi": _lower_ceildivsi,
    "arith.ceildivui": _lower_ceildivui,
    "arith.shli": _shift("shl"),
    "arith.shrsi": _shift("ashr"),
    "arith.shrui": _shift("lshr"),
    "arith.mulsi_extended": _extended_product(signed=True),
    "arith.mului_extended": _extended_product(signed=False),
    "arith.addui_extended": _lower_addui_extended,
    "tt.mulhiui": lambda call: high_product(*call.operands, signed=False),
    "math.ctpop": _intrinsic("ctpop"),
    "math.ctlz": _count_zeros("ctlz"),
    "math.cttz": _count_zeros("cttz"),
    "math.absi": _lower_absi,
}
