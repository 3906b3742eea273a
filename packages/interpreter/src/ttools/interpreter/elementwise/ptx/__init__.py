"""`tt.elementwise_inline_asm`: inline PTX translated to vector code.

`syntax` parses the text, `registers` fills registers from elements, and `machine` executes one
instruction after the other on vectors. `integer`, `floating`, `conversion` and `selection` define
the instructions. A kernel with an unknown instruction, modifier or operand is rejected.
`docs/reference/inline_asm.md` lists the supported instructions.
"""

from __future__ import annotations

import ttools.ir as ir
from ttools.core.errors import UnsupportedError
from ttools.interpreter.elementwise.ptx.conversion import lower_cvt
from ttools.interpreter.elementwise.ptx.floating import FLOAT_FORMS
from ttools.interpreter.elementwise.ptx.forms import Form, handler_of
from ttools.interpreter.elementwise.ptx.integer import INTEGER_FORMS, INTEGER_HANDLERS, multiply
from ttools.interpreter.elementwise.ptx.machine import (
    Handler,
    Machine,
    RefusedPtxError,
    Register,
)
from ttools.interpreter.elementwise.ptx.registers import (
    ConstraintError,
    Constraints,
    element_bits,
    empty,
    fill,
    parse_constraints,
    per_register,
)
from ttools.interpreter.elementwise.ptx.selection import SELECTION, SPECIAL, WITHOUT_RESULT
from ttools.interpreter.elementwise.ptx.syntax import Instruction, PtxSyntaxError, parse
from ttools.interpreter.elementwise.vector import BITS, Call, Lanes, Vector, vector_of
from ttools.interpreter.llvm.builder import register_type

_FORMS: dict[str, Form] = {**INTEGER_FORMS, **FLOAT_FORMS}
_by_form = handler_of(_FORMS)


def _product(machine: Machine, instruction: Instruction) -> None:
    """Execute `mul` and `mad` of integers or floats.

    The integer instructions are recognised by their modifier: `lo`, `hi` or `wide`.
    """
    which = {"lo", "hi", "wide"} & set(instruction.modifiers)
    (multiply if which else _by_form)(machine, instruction)


#: The handler of each opcode.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys((name.split(".")[0] for name in _FORMS), _by_form),
    **INTEGER_HANDLERS,
    **SELECTION,
    **WITHOUT_RESULT,
    "cvt": lower_cvt,
    "mul": _product,
    "mad": _product,
}

_HELP = (
    "write it with triton.language, or run this kernel on a GPU; see docs/reference/inline_asm.md"
)


def lower_inline_assembly(call: Call) -> tuple[Vector, ...]:
    """Translate one `tt.elementwise_inline_asm`.

    Raises:
        UnsupportedError: A part of the assembly cannot be translated; the message contains it.
    """
    try:
        return _translate(call)
    except PtxSyntaxError as error:
        raise _refusal(call, f"near `{error}`") from None
    except RefusedPtxError as error:
        raise _refusal(call, f"instruction {error}") from None
    except ConstraintError as error:
        raise _refusal(call, str(error)) from None


def _refusal(call: Call, what: str) -> UnsupportedError:
    return call.unsupported(f"inline PTX assembly: {what}", _HELP)


def pack_of(op: ir.Operation) -> int:
    """Return how many elements one instance of an operation's assembly computes."""
    pack = op.attributes.get("packed_element", 1)
    return pack if isinstance(pack, int) else 1


def _translate(call: Call) -> tuple[Vector, ...]:
    pack = pack_of(call.op)
    if pack & (pack - 1) or pack > 64:
        raise ConstraintError(f"pack = {pack} is not a power of two up to 64")
    operands, width = _whole_instances(call, pack)
    lanes = Lanes(call.lanes.builder, width // pack)
    constraints = parse_constraints(str(call.op.attributes.get("constraints", "")))
    inputs = [
        register
        for operand, value in zip(call.op.operands, operands, strict=True)
        for register in _filled(operand, value, pack)
    ]
    arguments = _arguments(constraints, inputs)
    machine = Machine(lanes, arguments, HANDLERS, SPECIAL)
    machine.run(parse(str(call.op.attributes.get("asm_string", ""))))
    outputs = arguments[: len(constraints.outputs)]
    written = [_written(machine, i, r, lanes) for i, r in enumerate(outputs)]
    return _results(call, written, pack, width)


def _whole_instances(call: Call, pack: int) -> tuple[list[Vector], int]:
    """Return the operands, repeated if there are fewer lanes than one instance computes."""
    width = call.lanes.width
    if width >= pack:
        return list(call.operands), width
    type = call.op.results[0].type
    if isinstance(type, ir.TensorType) and type.numel > width:
        # The other elements that the instance needs are not among these lanes.
        raise ConstraintError(f"pack = {pack}, but only {width} elements are computed at once")
    builder = call.lanes.builder
    chosen = [lane % width for lane in range(pack)]
    return [vector_of(builder, builder.shuffle(v.text, chosen)) for v in call.operands], pack


def _filled(operand: ir.Value, value: Vector, pack: int) -> list[Vector]:
    type = ir.element_type(operand.type)
    if element_bits(type) < 8 and pack > 1:
        raise ConstraintError(f"{pack} elements of {type} packed into a register")
    return fill(value, type, pack)


def _arguments(constraints: Constraints, inputs: list[Vector]) -> list[Register]:
    if len(inputs) != len(constraints.inputs):
        raise ConstraintError(
            f"{len(constraints.inputs)} input constraints for {len(inputs)} operand registers"
        )
    outputs = [Register(bits) for bits in constraints.outputs]
    registers = list(outputs)
    for i, (value, bits) in enumerate(zip(inputs, constraints.inputs, strict=True)):
        size = BITS[value.scalar]
        if size > bits:
            raise ConstraintError(f"a {bits}-bit register cannot be used for a {size}-bit operand")
        register = outputs[constraints.tied[i]] if i in constraints.tied else Register(bits)
        register.value = value.cast("zext", f"i{bits}")
        registers.append(register)
    return registers


def _written(machine: Machine, index: int, register: Register, lanes: Lanes) -> Vector:
    if register.value is not None:
        return register.value
    if machine.executed and all(opcode in WITHOUT_RESULT for opcode in machine.executed):
        # Triton requires an output, even for assembly such as `bar.sync 0;` that writes none.
        return lanes.constant(0, f"i{register.bits}")
    raise ConstraintError(f"output ${index} is never written")


def _results(call: Call, written: list[Vector], pack: int, width: int) -> tuple[Vector, ...]:
    types = [ir.element_type(result.type) for result in call.op.results]
    counts = [pack // per_register(type, pack) for type in types]
    if sum(counts) != len(written):
        raise ConstraintError(
            f"{len(written)} output constraints for {sum(counts)} result registers"
        )
    results = []
    for type, count in zip(types, counts, strict=True):
        registers, written = written[:count], written[count:]
        share = per_register(type, pack)
        if any(BITS[r.scalar] < share * element_bits(type) for r in registers):
            raise ConstraintError(
                f"an output register that is too small for {share} elements of {type}"
            )
        if element_bits(type) < 8 and pack > 1:
            raise ConstraintError(f"{pack} elements of {type} packed into a register")
        value = empty(registers, type, pack, Lanes(call.lanes.builder, width))
        if width > call.lanes.width:
            kept = range(call.lanes.width)
            value = call.lanes.value(call.lanes.builder.shuffle(value.text, kept))
        results.append(value.as_float(register_type(type)))
    return tuple(results)
