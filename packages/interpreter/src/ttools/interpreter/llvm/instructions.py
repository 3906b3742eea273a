"""Emits instructions: fresh names, basic blocks, and one method for each form that we use.

An instruction's text is taken apart nowhere: what it makes has its type from here on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ttools.interpreter.llvm.lines import BlockStart, Instruction, Line, Phi, Return
from ttools.interpreter.llvm.value import (
    NOTHING,
    Label,
    SSAValue,
    element_of,
    field_of,
    integer,
    with_element,
)

#: What is passed to a function: a value, or one and all that is said of it in place of its type.
Argument: TypeAlias = "SSAValue | tuple[str, SSAValue]"

_new = str.__new__


class Instructions:
    """Appends instructions to the `lines` of a function.

    Attributes:
        lines: of the function.
        block: the label of the block that the next instruction is in.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.block = Label("entry")
        self._counter = 0
        self._hint = ""

    # ---- names, lines, blocks
    def fresh(self, type: str, hint: str = "") -> SSAValue:
        """A name that nothing has yet."""
        self._counter += 1
        return SSAValue(f"%{hint or self._hint}{self._counter}", type)

    def emit(self, type: str, *parts: str) -> SSAValue:
        """Appends an instruction that makes a value of a type; returns the value."""
        # Every instruction passes here: no call that can be done without.
        self._counter += 1
        result = _new(SSAValue, f"%{self._hint}{self._counter}")
        result.type = type
        self.lines.append(Instruction(result, parts))
        return result

    def record(self, instruction: Instruction) -> None:
        """Appends an instruction."""
        self.lines.append(instruction)

    def do(self, *parts: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append(Instruction(None, parts))

    def label(self, hint: str) -> Label:
        self._counter += 1
        return Label(f"{hint}{self._counter}")

    def start(self, label: Label) -> None:
        """Starts a basic block; the previous one must have been terminated."""
        self.lines.append(BlockStart(label))
        self.block = label

    # ---- control
    def branch(self, label: Label) -> None:
        self.do("br label %", label)

    def cond_branch(self, cond: SSAValue, then: Label, otherwise: Label) -> None:
        self.do("br i1 ", cond, ", label %", then, ", label %", otherwise)

    @contextmanager
    def only_if(self, condition: SSAValue, then: str, done: str) -> Iterator[None]:
        """What is emitted meanwhile runs where a condition holds; hints name the blocks."""
        yes, no = self.label(then), self.label(done)
        self.cond_branch(condition, yes, no)
        self.start(yes)
        yield
        self.branch(no)
        self.start(no)

    def ret(self, value: SSAValue | None = None) -> None:
        """Returns from the function."""
        parts = ("ret void",) if value is None else (f"ret {value.type} ", value)
        self.record(Return(None, parts))

    def phi(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """Joins values by the blocks that control comes from."""
        phi = Phi(self.fresh(edges[0][0].type))
        for value, block in edges:
            phi.add(value, block)
        self.record(phi)
        return phi.value

    def joined(self, *edges: tuple[SSAValue, Label]) -> SSAValue:
        """`phi`, or `NOTHING` where there is none on any edge."""
        return NOTHING if edges[0][0] is NOTHING else self.phi(*edges)

    def open_phi(self, hint: str, value: SSAValue, block: Label) -> Phi:
        """A phi with its first edge; the others are added later."""
        phi = Phi(self.fresh(value.type, hint))
        phi.add(value, block)
        self.lines.append(phi)
        return phi

    # ---- arithmetic
    def binary(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """`add`, `mul nuw nsw`, `fadd`, … of two values of a type; a number is in all lanes."""
        return self.emit(a.type, f"{op} {a.type} ", a, ", ", _beside(a, b))

    def compare(self, op: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """`icmp slt`, `fcmp olt`, …: i1 lanes."""
        return self.emit(with_element(a.type, "i1"), f"{op} {a.type} ", a, ", ", _beside(a, b))

    def cast(self, op: str, value: SSAValue, element: str) -> SSAValue:
        """`zext`, `fptosi`, `inttoptr`, … of each lane."""
        target = with_element(value.type, element)
        return self.emit(target, f"{op} {value.type} ", value, f" to {target}")

    def bitcast(self, value: SSAValue, type: str) -> SSAValue:
        """The bits of a value as another type."""
        if value.type == type:
            return value
        return self.emit(type, f"bitcast {value.type} ", value, f" to {type}")

    def select(self, mask: SSAValue, then: SSAValue, otherwise: SSAValue | int) -> SSAValue:
        """`then` where a mask is set, `otherwise` elsewhere."""
        head, between = f"select {mask.type} ", f", {then.type} "
        return self.emit(then.type, head, mask, between, then, between, _beside(then, otherwise))

    # ---- memory
    def load(
        self,
        type: str,
        pointer: SSAValue,
        align: int | None = None,
        *,
        op: str = "load",
        ordering: str = "",
    ) -> SSAValue:
        """Loads a value; aligned as its type if no alignment is given, in bytes."""
        tail = f" {ordering}" if ordering else ""
        if align is not None:
            tail += f", align {align}"
        return self.emit(type, f"{op} {type}, ptr ", pointer, tail)

    def store(
        self,
        value: SSAValue,
        pointer: SSAValue,
        align: int | None = None,
        *,
        op: str = "store",
        ordering: str = "",
    ) -> None:
        """Stores a value; aligned as its type if no alignment is given, in bytes."""
        tail = f" {ordering}" if ordering else ""
        if align is not None:
            tail += f", align {align}"
        self.do(f"{op} {value.type} ", value, ", ptr ", pointer, *([tail] if tail else ()))

    def change(self, op: str, pointer: SSAValue, value: SSAValue, ordering: str) -> SSAValue:
        """An `atomicrmw`; returns what was there."""
        head, between = f"atomicrmw {op} ptr ", f", {value.type} "
        return self.emit(value.type, head, pointer, between, value, f" {ordering}")

    def compare_exchange(
        self, pointer: SSAValue, expected: SSAValue, new: SSAValue, ordering: str
    ) -> SSAValue:
        """A `cmpxchg`; returns what was there, and whether that was expected."""
        # One that fails writes nothing, so that it releases nothing.
        failure = {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)
        between, tail = f", {new.type} ", f" {ordering} {failure}"
        parts = ("cmpxchg ptr ", pointer, between, expected, between, new, tail)
        return self.emit(f"{{ {new.type}, i1 }}", *parts)

    def offset(
        self, pointer: SSAValue, offset: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """A pointer so many bytes further on."""
        return self.element("i8", pointer, offset, inbounds=inbounds)

    def element(
        self, type: str, pointer: SSAValue, index: SSAValue | int, *, inbounds: bool = True
    ) -> SSAValue:
        """A pointer to an element behind the one that a pointer leads to; lanes of them."""
        step = index if isinstance(index, SSAValue) else integer(index, "i64")
        head = f"getelementptr {'inbounds ' if inbounds else ''}{type}, ptr "
        return self.emit(with_element(step.type, "ptr"), head, pointer, f", {step.type} ", step)

    # ---- parts of vectors and structures
    def extract(self, vector: SSAValue, lane: int) -> SSAValue:
        """A lane of a vector."""
        type = vector.type
        return self.emit(element_of(type), f"extractelement {type} ", vector, f", i64 {lane}")

    def insert(self, vector: SSAValue, value: SSAValue, lane: int) -> SSAValue:
        """A vector with another value in a lane."""
        head, between = f"insertelement {vector.type} ", f", {value.type} "
        return self.emit(vector.type, head, vector, between, value, f", i64 {lane}")

    def shuffled(
        self, a: SSAValue, b: SSAValue, lanes: Sequence[int] | None, count: int
    ) -> SSAValue:
        """Lanes out of two vectors; `count` times the first if None are given."""
        mask = "zeroinitializer"
        if lanes is not None:
            mask = f"<{', '.join([f'i32 {lane}' for lane in lanes])}>"
        tail = f", <{count} x i32> {mask}"
        result = f"<{count} x {element_of(a.type)}>"
        return self.emit(result, f"shufflevector {a.type} ", a, f", {a.type} ", b, tail)

    def field(self, structure: SSAValue, index: int) -> SSAValue:
        """A field of a structure."""
        type = structure.type
        return self.emit(field_of(type, index), f"extractvalue {type} ", structure, f", {index}")

    def with_field(self, structure: SSAValue, value: SSAValue, index: int) -> SSAValue:
        """A structure with another value in a field."""
        head, between = f"insertvalue {structure.type} ", f", {value.type} "
        return self.emit(structure.type, head, structure, between, value, f", {index}")

    # ---- calls
    def call(self, type: str, function: str, *arguments: Argument) -> SSAValue:
        """Calls a function, or what a pointer leads to; returns its value.

        Args:
            type: of the value; `void` for `NOTHING`.
            function: `@name`, or a pointer.
            arguments: what is passed.
        """
        if type == "void":
            self.do("call void ", function, *_passed(arguments))
            return NOTHING
        return self.emit(type, f"call {type} ", function, *_passed(arguments))


def with_type(argument: Argument) -> tuple[str, SSAValue]:
    """What is said of an argument, and its value."""
    return (argument.type, argument) if isinstance(argument, SSAValue) else argument


def _beside(a: SSAValue, b: SSAValue | int) -> str:
    """An operand of the type of another one, of which a number is in all lanes."""
    if isinstance(b, str):
        return b
    return f"splat ({element_of(a.type)} {b})" if a.type.startswith("<") else str(b)


def _passed(arguments: Iterable[Argument]) -> list[str]:
    """The arguments of a call."""
    parts: list[str] = []
    between = "("
    for type_, value in map(with_type, arguments):
        parts += (f"{between}{type_} ", value)
        between = ", "
    parts.append(")" if parts else "()")
    return parts
