"""Programs as Triton source, for execution and for reports."""

from __future__ import annotations

from collections.abc import Sequence

from ttools.fuzz.memory import PATTERNS
from ttools.fuzz.operations.access import descriptor_text
from ttools.fuzz.operations.combining import COMBINES
from ttools.fuzz.operations.table import shape_text, write
from ttools.fuzz.program import (
    Assign,
    Buffer,
    DescriptorStore,
    Expr,
    For,
    Helper,
    If,
    Program,
    Statement,
    Store,
    While,
    all_expressions,
)

_INDENT = "    "


def module_text(program: Program) -> str:
    """Return a module that defines the kernel as `kernel`."""
    return f"import triton\nimport triton.language as tl\n\n\n{definitions(program)}"


def definitions(program: Program) -> str:
    """Return the source of the kernel and of the functions that it calls."""
    parts = [f"@triton.jit\n{COMBINES[name].text}\n" for name in _combines(program)]
    used = {e.attrs["name"] for e in all_expressions(program.body) if e.op == "call"}
    parts += [_helper(helper) for helper in program.helpers if helper.name in used]
    names = [buffer.name for buffer in program.buffers]
    names += [p.name + (": tl.constexpr" if p.constexpr else "") for p in program.parameters]
    body = "\n".join(_block(program.body, 1)) or f"{_INDENT}pass"
    parts.append(f"@triton.jit\ndef kernel({', '.join(names)}):\n{body}\n")
    return "\n\n".join(parts)


def _combines(program: Program) -> list[str]:
    blocks = [program.body, *(helper.body for helper in program.helpers)]
    used = {e.attrs["combine"] for b in blocks for e in all_expressions(b) if "combine" in e.attrs}
    return sorted(used)


def _helper(helper: Helper) -> str:
    decorator = "@triton.jit(noinline=True)" if helper.noinline else "@triton.jit"
    names = ", ".join(name for name, _ in helper.parameters)
    body = "\n".join(_block(helper.body, 1))
    results = ", ".join(bare(result) for result in helper.results)
    return f"{decorator}\ndef {helper.name}({names}):\n{body}\n{_INDENT}return {results}\n"


def bare(expr: Expr) -> str:
    """Return an expression's text without enclosing parentheses."""
    text = write(expr)
    if not text.startswith("("):
        return text
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text


def _block(block: Sequence[Statement], depth: int) -> list[str]:
    lines: list[str] = []
    for statement in block:
        lines += _statement(statement, depth)
    return lines


def _statement(statement: Statement, depth: int) -> list[str]:
    indent = _INDENT * depth
    match statement:
        case Assign():
            value = bare(statement.value)
            discarded = not statement.targets or statement.targets == ("_",)
            return [indent + (value if discarded else f"{', '.join(statement.targets)} = {value}")]
        case Store():
            mask = "" if statement.mask is None else f", mask={bare(statement.mask)}"
            pointer = bare(statement.pointer)
            name = "atomic_store" if statement.is_atomic else "store"
            return [f"{indent}tl.{name}({pointer}, {bare(statement.value)}{mask})"]
        case DescriptorStore():
            shape = statement.value.type.shape
            base = bare(statement.base)
            made = descriptor_text(base, statement.shape, statement.strides, shape)
            offsets = shape_text(statement.offsets)
            return [f"{indent}{made}.store({offsets}, {bare(statement.value)})"]
        case For():
            function = "tl.static_range" if statement.static else "range"
            bounds = ", ".join(bare(bound) for bound in statement.bounds)
            head = f"{indent}for {statement.name} in {function}({bounds}):"
            return [head, *_inner(statement.body, depth)]
        case While():
            return [f"{indent}while {bare(statement.condition)}:", *_inner(statement.body, depth)]
        case If():
            lines = [f"{indent}if {bare(statement.condition)}:", *_inner(statement.then, depth)]
            if statement.orelse:
                lines += [f"{indent}else:", *_inner(statement.orelse, depth)]
            return lines


def _inner(block: Sequence[Statement], depth: int) -> list[str]:
    return _block(block, depth + 1) or [_INDENT * (depth + 1) + "pass"]


def torch_lines(buffer: Buffer) -> list[str]:
    """Return lines of torch that create a buffer's memory, margins included."""
    total = buffer.size + 2 * buffer.margin
    made = PATTERNS[buffer.data].torch(buffer.seed, buffer.element)
    return [f"i = torch.arange({total})", f"{buffer.name} = {made}"]


def launch_arguments(program: Program) -> str:
    """Return the arguments of a launch, with buffers named as in the kernel."""
    parts = [
        f"{b.name}[{b.margin}:{b.margin + b.size}]" if b.margin else b.name for b in program.buffers
    ]
    return ", ".join([*parts, *(str(p.value) for p in program.parameters)])
