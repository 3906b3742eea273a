"""Explains errors of Triton's front end: the values that caused them, and what to write instead.

Triton's message names a rule of its language, for example "arange's range must be a power of 2".
The explanation adds what Triton's message lacks: for example, that `B` is 48 in this launch, and
that 64 with a mask is needed. It is derived from the text of the message, the node of the kernel's
source that Triton was compiling, and the constants of the function that contains the node.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Failure:
    """An error of Triton's front end.

    Attributes:
        message: Triton's message, without the excerpt of the source.
        node: Node of the kernel's source that was being compiled. If the error is in a function
            that the kernel calls, this is the call.
        parameters: Names of the kernel's parameters.
        constants: Values of the constant parameters, by name.
        ones: Names of the parameters that are compiled as the constant 1 because 1 was passed for
            them.
    """

    message: str
    node: ast.AST | None
    parameters: Sequence[str]
    constants: Mapping[str, Any]
    ones: frozenset[str]

    def value(self, node: ast.AST) -> int | None:
        """Return the integer value of a literal or a constant parameter; None if it is unknown."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and type(self.constants.get(node.id)) is int:
            return int(self.constants[node.id])
        return None

    def parameters_used(self) -> list[str]:
        """Return the parameters that occur in the arguments of the call that was being compiled."""
        call = self.node.iter if isinstance(self.node, ast.For) else self.node
        if not isinstance(call, ast.Call):
            return []
        parts = [*call.args, *(keyword.value for keyword in call.keywords)]
        names = {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}
        return [name for name in self.parameters if name in names]


def is_compilation_error(error: BaseException) -> bool:
    """Return whether Triton's front end has raised an error because of the kernel's source."""
    return "CompilationError" in {kind.__name__ for kind in type(error).__mro__}


def explanation(
    error: BaseException,
    constants: Mapping[str, Any] | None = None,
    parameters: Sequence[str] | None = None,
) -> str:
    """Return what caused an error of Triton's front end and what to write instead.

    Args:
        error: The error. For an error in a launch, its traceback must be complete, because the
            values of the kernel's constants are read from the frames of the traceback.
        constants: The kernel's constants by name, for a compilation without a launch.
        parameters: Names of all of the kernel's parameters, for a compilation without a launch; by
            default the names in `constants`.

    Returns:
        One or two sentences; empty if the error is unknown.
    """
    if not is_compilation_error(error):
        texts = ((re.search(pattern, str(error)), text) for pattern, text in _OF_LAUNCHES.items())
        return next((text.format(**match.groupdict()) for match, text in texts if match), "")
    failure = _failure(error)
    if constants is not None:
        names = list(constants) if parameters is None else parameters
        failure = replace(failure, parameters=names, constants=constants)
    for pattern, explain in _WITH_VALUES.items():
        match = re.search(pattern, failure.message, re.DOTALL)
        if match is not None:
            return explain(failure, match)
    return next((text for p, text in _PLAIN.items() if re.search(p, failure.message)), "")


def explain_in_message(error: BaseException) -> None:
    """Append the explanation to the message of an error of Triton's front end."""
    if "\nhelp: " in str(error) or not isinstance(error, Exception):
        return
    text = explanation(error)
    raised: Any = error
    if text and is_compilation_error(error):
        raised.error_message = f"{raised.error_message or ''}\nhelp: {text}".lstrip("\n")
        raised.message = f"{raised.message}\nhelp: {text}"
    elif text:
        raised.args = (f"{raised.args[0]}; {text}",)


def message_in_one_line(error: BaseException) -> str:
    """Return an error's message with its explanation, but without the source excerpt."""
    if not is_compilation_error(error):
        return str(error).strip().partition("\n")[0]
    message = " ".join(_failure(error).message.split())
    text = explanation(error)
    return f"{message}; help: {text}" if text else message


# ---- reading an error
def _failure(error: Any) -> Failure:
    parameters: list[str] = []
    constants: dict[str, Any] = {}
    ones: frozenset[str] = frozenset()
    for frame_locals in _frames(error):
        function: Any = frame_locals.get("self")
        values = frame_locals.get("constexprs")
        if hasattr(function, "params") and isinstance(values, Mapping):
            parameters = [parameter.name for parameter in function.params]
            constants = {n: values[i,] for i, n in enumerate(parameters) if (i,) in values}
            declared = {p.name for p in function.params if p.is_constexpr}
            ones = frozenset(n for n in constants if n not in declared and constants[n] == 1)
    # If the error is in a function that the kernel calls, it is the `__cause__` of the error
    # reported for the call.
    message, cause = error.error_message, error.__cause__
    while not message and cause is not None:
        message = getattr(cause, "error_message", None) or (
            "" if is_compilation_error(cause) else str(cause)
        )
        cause = cause.__cause__
    return Failure(message or "", error.node, parameters, constants, ones)


def _frames(error: BaseException) -> Iterator[Mapping[str, Any]]:
    """Yield the local variables of each frame in an error's traceback, outermost first."""
    entry = error.__traceback__
    while entry is not None:
        yield entry.tb_frame.f_locals
        entry = entry.tb_next


# ---- explanations that depend on values
def _power(size: int) -> str:
    return (
        f"use {1 << (size - 1).bit_length()}, which is `triton.next_power_of_2({size})`, and mask "
        f"the lanes from {size} on"
    )


def _range_size(failure: Failure, _: re.Match[str]) -> str:
    ends = failure.node.args if isinstance(failure.node, ast.Call) else []
    low, high = map(failure.value, ends) if len(ends) == 2 else (None, None)
    if low is None or high is None or high <= low:
        return "the number of elements of a range must be a power of two"
    named = f" (`{ast.unparse(ends[1])}` is {high})" if isinstance(ends[1], ast.Name) else ""
    size = high - low
    return f"the range has {size} elements{named}, which is not a power of two: {_power(size)}"


def _shape_size(failure: Failure, _: re.Match[str]) -> str:
    sizes = {name: failure.constants.get(name) for name in failure.parameters_used()}
    odd = [(name, v) for name, v in sizes.items() if type(v) is int and v > 0 and v & (v - 1)]
    if len(odd) == 1:
        ((name, value),) = odd
        return f"`{name}` is {value}, which is not a power of two: {_power(value)}"
    return "each extent of a block must be a power of two: `triton.next_power_of_2` rounds up"


def _must_be_constant(failure: Failure, _: re.Match[str]) -> str:
    names = [name for name in failure.parameters_used() if name not in failure.constants]
    listed = " and ".join(f"`{name}`" for name in names) or "the size"
    declared = " and ".join(f"`{name}: tl.constexpr`" for name in names) or "it as `tl.constexpr`"
    return (
        f"{listed} must be known when the kernel is compiled: declare {declared} in the parameters"
    )


def _carried_constant(failure: Failure, match: re.Match[str]) -> str:
    name = match["name"]
    if name in failure.ones:
        return (
            f"`{name}` is 1 in this launch, and Triton compiles an argument that is equal to 1 as "
            "a constant, but the loop assigns another type to it. Declare "
            f'`@triton.jit(do_not_specialize=["{name}"])`, or copy it to a tensor before the loop: '
            f"`{name} = tl.full([], {name}, tl.int32)`"
        )
    return (
        f"`{name}` is a constant before the loop and a tensor after an iteration, or the other way "
        f"round: begin with a tensor, for example `{name} = tl.full([], 0, tl.int32)`"
    )


def _carried_type(failure: Failure, match: re.Match[str]) -> str:
    name, before, after = match["name"], _type(match["before"]), _type(match["after"])
    if before[0] == after[0]:
        old, new = f"tl.{_DTYPES[before[1]]}", f"tl.{_DTYPES[after[1]]}"
        begin = f"`{name} = tl.zeros({list(before[0])}, {new})`"
        if not before[0]:
            begin = f"`{name} = 0.0`" if after[1].startswith("fp") else f"of type `{new}`"
        return (
            f"`{name}` changes from {before[1]} to {after[1]} in the loop: begin with {begin}, or "
            f"convert the new value with `.to({old})`"
        )
    return (
        f"`{name}` changes its shape from {_shape(before[0])} to {_shape(after[0])} in the loop: "
        "use another name for the new value, or give both the same shape"
    )


def _branch_type(_: Failure, match: re.Match[str]) -> str:
    return (
        f"`{match['name']}` is {match['then']} in one branch and {match['else']} in the other: "
        "give it the same type and shape in both, or use `tl.where`"
    )


def _undefined(_: Failure, match: re.Match[str]) -> str:
    return (
        f"if `{match['name']}` is assigned only in a branch or in a loop, assign it before as "
        "well; otherwise, pass it as an argument, or import it in the file of the kernel"
    )


def _global(_: Failure, match: re.Match[str]) -> str:
    name = match["name"]
    return (
        f"pass `{name}` as an argument (`{name}: tl.constexpr`), or define it as "
        f"`{name} = tl.constexpr(…)` outside of the kernel"
    )


def _incompatible(failure: Failure, match: re.Match[str]) -> str:
    sizes = {match["a"], match["b"]}
    named = [
        f"`{name}` is {value}"
        for name, value in failure.constants.items()
        if str(value) in sizes and type(value) is int and name.isidentifier()
    ]
    values = f" ({', '.join(named[:3])})" if named else ""
    return (
        f"extents that meet in an operation must be equal or 1{values}; `x[:, None]` and "
        "`x[None, :]` add an axis of extent 1"
    )


def _pointer(failure: Failure, _: re.Match[str]) -> str:
    node = failure.node
    pointer = ast.unparse(node.args[0]) if isinstance(node, ast.Call) and node.args else "it"
    names = sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)}) if node else []
    one = [f"`{name}`" for name in names if name in failure.constants and name in failure.ones]
    why = f"; {', '.join(one)} is the number 1 in this launch" if one else ""
    return f"`{pointer}` is a number, not a pointer{why}: pass a tensor for it in the launch"


def _too_large(_: Failure, match: re.Match[str]) -> str:
    return (
        f"a block has at most {int(match['most']):,} elements, and this one has "
        f"{int(match['numel']):,}: use smaller blocks, and a loop or more programs"
    )


def _kind_of_node(_: Failure, match: re.Match[str]) -> str:
    return _NODES.get(match["kind"], "Triton does not compile this statement of Python")


def _operand_types(_: Failure, match: re.Match[str]) -> str:
    return (
        f"the operands of `tl.dot(a, b)` are {match['a']} and {match['b']}: convert one, for "
        "example with `b.to(a.dtype)`"
    )


def _none(failure: Failure, _: re.Match[str]) -> str:
    nones = [name for name, value in failure.constants.items() if value is None]
    nodes = ast.walk(failure.node) if failure.node is not None else ()
    used = {n.id for n in nodes if isinstance(n, ast.Name)}
    names = [f"`{name}`" for name in nones if name in used]
    if not names:
        return ""
    return (
        f"{' and '.join(names)} is None in this launch: skip the access with "
        f"`if {names[0].strip('`')} is not None:`, which Triton decides when it compiles"
    )


def _type(text: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and element type of a printed type, such as `<['16'], fp32>` or `int32`."""
    match = re.fullmatch(r"<\[(?P<shape>[^]]*)\], (?P<dtype>\w+)>", text)
    if match is None:
        return (), text
    return tuple(map(int, re.findall(r"\d+", match["shape"]))), match["dtype"]


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]" if shape else "a scalar"


class _Dtypes(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


_DTYPES = _Dtypes(fp16="float16", bf16="bfloat16", fp32="float32", fp64="float64")
#: Explanations of statements that Triton does not compile, by the name of their `ast` node.
_NODES = {
    "Break": "loops cannot be left early: put the condition into a `while` loop, or mask the "
    "remaining iterations",
    "Continue": "iterations cannot be skipped: put the rest of the loop's body under an `if`",
    "Try": "kernels have no exceptions: use `tl.device_assert` for conditions at run time",
    "Raise": "kernels have no exceptions: use `tl.static_assert` or `tl.device_assert`",
    "With": "kernels have no context managers, except those that Triton provides",
    "Lambda": "write a function with `@triton.jit` instead of a lambda expression",
    "Dict": "kernels have no dictionaries: use separate variables or a tuple",
    "Set": "kernels have no sets: use separate variables or a tuple",
    "Yield": "kernels have no generators: write a loop",
    "Global": "kernels cannot assign global variables: store to a tensor",
    "Nonlocal": "kernels cannot assign variables of other functions: return the value",
    "ClassDef": "kernels cannot define classes",
    "Delete": "variables of kernels cannot be deleted: leave out the statement",
}
#: Explanations that depend on values, by a regular expression for Triton's message.
_WITH_VALUES: dict[str, Callable[[Failure, re.Match[str]], str]] = {
    r"arange's range must be a power of 2": _range_size,
    r"Shape element \d+ must be a power of 2": _shape_size,
    r"arange's arguments must be of type tl\.constexpr": _must_be_constant,
    r"Shape element \d+ must have type `constexpr": _must_be_constant,
    r"used as tl\.static_range \w+ value is not a constexpr": _must_be_constant,
    r"Loop carried variable (?P<name>\w+) changed type": _carried_constant,
    r"Loop-carried variable (?P<name>\w+) has initial type (?P<before>\S.*?) but is re-assigned to "
    r"(?P<after>\S.*?) in loop": _carried_type,
    r"Mismatched type for (?P<name>\w+) between then block \((?P<then>[^()]*)\) and else block "
    r"\((?P<else>[^()]*)\)": _branch_type,
    r"Cannot access global variable (?P<name>\w+) from within": _global,
    r"NameError\(.(?P<name>\w+) is not defined": _undefined,
    r"incompatible dimensions at index \d+: (?P<a>\d+) and (?P<b>\d+)": _incompatible,
    r"Unsupported ptr type .* in `tl\.\w+`": _pointer,
    r"numel \((?P<numel>\d+)\) exceeds triton maximum tensor numel \((?P<most>\d+)\)": _too_large,
    r"unsupported AST node type: (?P<kind>\w+)": _kind_of_node,
    r"'constexpr_type' object has no attribute|'NoneType' object has no": _none,
    r"Both operands must be same dtype\. Got (?P<a>\w+) and (?P<b>\w+)": _operand_types,
}
#: Explanations of errors of the launch itself, by a regular expression for the message.
_OF_LAUNCHES = {
    r"Unsupported function referenced: <function (?P<name>[\w.]+)": "decorate `{name}` with "
    "`@triton.jit`, because kernels cannot call functions of Python",
    r"dynamic_func\(\) missing \d+ required positional arguments?: (?P<names>.*)": "pass {names} "
    "in the launch: `kernel[grid](…, NAME=value)`",
    r"Keyword argument (?P<name>\w+) was specified but unrecognised": "`{name}` is neither a "
    "parameter of the kernel nor a launch option such as `num_warps`",
}
#: Other explanations, by a regular expression for Triton's message.
_PLAIN = {
    r"unsupported tensor index": "elements of a block cannot be selected by an index or a slice: "
    "load them with their own offsets, reduce with `tl.sum(tl.where(index == i, x, 0))`, or use "
    "`tl.gather`; only `None` and `:` are supported in brackets",
    r"Cannot have `return` statements inside": "set a variable in the loop and test it after the "
    "loop, or put the rest of the kernel under an `if`",
    r"Boolean value of Tensor with more than one value is ambiguous": "each lane has its own "
    "value, so an `if` cannot choose one branch: use `tl.where`, a mask, or reduce the condition "
    "with `tl.max`",
    r"argument cannot be block type if pointer argument is not a block": "the pointer is a scalar, "
    "but the mask or value is a block: add a block of offsets to the pointer",
    r"Expected pointer argument to have shape": "pointers and values of a store must have the same "
    "shape: add the same axes (`[:, None]`) to both",
    r"must have equal reduction dimensions|are not compatible for matmul": "`tl.dot(a, b)` needs "
    "`a` of shape [M, K] and `b` of shape [K, N]: transpose an operand with `tl.trans`, or load it "
    "with exchanged strides",
    r"Input shapes should have M >= \d+, N >= \d+ and K >= \d+": "the blocks of `tl.dot` are too "
    "small for the GPU's matrix units: enlarge them and mask the additional rows or columns, or "
    "use `tl.sum(a[:, :, None] * b[None, :, :], 1)`",
    r"invalid operands of type pointer<\w+> and": "an offset of a pointer counts elements and must "
    "be an integer: convert it with `.to(tl.int64)`",
    r"invalid operands of type \S*float\S* and": "bit operations and shifts need integers: convert "
    "the operands, or use `tl.where` for conditions",
    r"only tuple comprehensions are supported": "kernels have no lists: use separate variables "
    "with `tl.static_range`, or a tuple",
    r"reshape\(\) cannot change total number of elements": "the product of the new extents must be "
    "the number of elements of the block",
    r"reduction axis must be": "axes are counted from 0: a block of shape [M, N] has the axes 0 "
    "and 1",
    r"module 'triton.*' has no attribute": "check the spelling, and whether the installed version "
    "of Triton has this function",
}
