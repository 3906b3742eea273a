"""Defines the schema of plans, which describe the actions of a candidate's call as data.

Another process can repeat the call from its plan. A plan lists the storages that the call used and
the steps that wrote to them: launches of kernels, as TTIR text with a `LaunchSpec`, and operators
of torch. Views need no steps, since each operand is a `TensorSpec`: a view of a numbered storage. A
plan comes from a process that is not trusted, so `read_plan` checks all of the plan before anything
is executed.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ttools.core.errors import TtoolsError
from ttools.core.spec import LaunchSpec, ObjectSpec, TensorSpec
from ttools.verifier.replay.operators import EMPTY, OPERATORS, base_name, find_operator

#: Maximum length of an encoded plan in bytes.
LONGEST_PLAN = 1 << 28
#: Maximum number of bytes that all storages of a plan may have together.
MOST_MEMORY = 1 << 32
#: Maximum numbers of steps, storages and kernels of a plan.
MOST_STEPS, MOST_STORAGES, MOST_KERNELS = 20_000, 40_000, 256
#: Maximum number of programs of a launch along an axis: CUDA's limit for the first axis.
_MOST_PROGRAMS = 2**31 - 1

#: Size of an element in bytes, by torch's name of its type.
ITEM_BYTES = {
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    **dict.fromkeys(
        ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"), 1
    ),
}

_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Name = Annotated[str, Meta(max_length=400)]


class PlanError(TtoolsError):
    """A plan is malformed, or contains a step that the trusted process does not execute."""


class Symbol(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="symbol"):
    """A constant of torch as an operand.

    Attributes:
        type: The kind of constant.
        name: Name without the module, such as `float32`.
    """

    type: Literal["dtype", "memory_format"]
    name: _Name


class Items(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="items"):
    """A list of operands."""

    items: tuple[Operand, ...]


#: An operand of an operator.
Operand: TypeAlias = "TensorSpec | Symbol | Items | bool | int | float | str | None"


class OperatorStep(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="operator"
):
    """A call of one of torch's operators.

    Attributes:
        operator: Qualified name with overload, such as `aten::copy_` or `aten::add.Tensor`.
        results: The tensors that the operator returns, in order; their storages may be new.
    """

    operator: _Name
    arguments: tuple[Operand, ...]
    keywords: dict[str, Operand]
    results: tuple[TensorSpec, ...]


class LaunchStep(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="launch"):
    """A step of a plan: a `LaunchSpec`, and the kernel that it launches.

    Attributes:
        kernel: Index of the kernel in `Plan.kernels`.
        spec: The launch; its tensors are views of the plan's storages.
    """

    kernel: _Natural
    spec: LaunchSpec


class InputStorage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="input"):
    """The storage of an argument.

    Attributes:
        argument: Name of an argument that is a view of the storage, such as `x` or `xs[0]`.
        size: Size of the storage in bytes.
    """

    argument: _Name
    size: _Natural


class ConstantStorage(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="constant"
):
    """A storage of unknown origin, with the bytes that it contained when it was first used."""

    data: bytes

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return len(self.data)


class MadeStorage(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="made"):
    """A storage that an operator of the plan allocates.

    Attributes:
        size: Size of the storage in bytes.
    """

    size: _Natural


Storage: TypeAlias = "InputStorage | ConstantStorage | MadeStorage"
Step: TypeAlias = "OperatorStep | LaunchStep"
#: A result: a tensor as a view of a storage, or a plain value.
Result: TypeAlias = "TensorSpec | bool | int | float | str | None"


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """The launches and operators of one call, and the memory that they used.

    Attributes:
        storages: The memory of the call; tensors refer to a storage by its index.
        kernels: TTIR texts of the kernels.
        steps: Launches and operators, in order.
        results: The results by name, including gradients.
        reads: Names of arguments whose elements the program read on the host, so that the plan's
            steps may depend on them.
    """

    storages: tuple[Storage, ...]
    kernels: tuple[str, ...]
    steps: tuple[Step, ...]
    results: dict[_Name, Result]
    reads: tuple[_Name, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Plan)


def write_plan(plan: Plan) -> bytes:
    """Return the bytes of a plan.

    Raises:
        PlanError: The plan is too long.
    """
    try:
        data = _encoder.encode(plan)
    except (OverflowError, RecursionError, TypeError) as error:
        raise PlanError(f"an argument cannot be written: {error}") from None
    if len(data) > LONGEST_PLAN:
        raise PlanError(f"the plan has {len(data):,} bytes; at most {LONGEST_PLAN:,} are read")
    return data


def read_plan(data: bytes) -> Plan:
    """Return the plan that is encoded in bytes of unknown origin.

    Raises:
        PlanError: The bytes are not a plan, or the plan breaks a rule, which the message names.
    """
    if len(data) > LONGEST_PLAN:
        raise PlanError(f"the plan has {len(data):,} bytes; at most {LONGEST_PLAN:,} are read")
    try:
        plan: Plan = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PlanError(f"the plan is malformed: {str(error)[:200]}") from None
    _check(plan)
    return plan


def is_filled_without_launches(plan: Plan) -> bool:
    """Return whether each result would have contents even if no kernel of the plan ran.

    If the memory of a result is only allocated, the result cannot be correct without its kernel.
    """
    filled = {n for n, storage in enumerate(plan.storages) if not isinstance(storage, MadeStorage)}
    for step in plan.steps:
        if isinstance(step, OperatorStep) and base_name(step.operator) not in EMPTY:
            filled |= {view.storage for view in step.results}
            filled |= {view.storage for view in step.arguments[:1] if isinstance(view, TensorSpec)}
    views = [view for view in plan.results.values() if isinstance(view, TensorSpec)]
    return all(view.storage in filled for view in views if 0 not in view.shape)


def structure_of(plan: Plan) -> bytes:
    """Return a digest of the launches and operators of a plan, without values and without order.

    Two launches agree if they launch the same kernel with the same grid, options and tensor
    layouts. The order is left out, because the threads of a program may run in any order.
    """
    steps = []
    for step in plan.steps:
        if isinstance(step, LaunchStep):
            text, spec = plan.kernels[step.kernel], step.spec
            views = [argument.value for argument in spec.arguments]
            described: Any = (text, spec.grid, repr(spec.options))
        else:
            views, described = list(step.results), step.operator
        layouts = [(e.dtype, e.shape, e.strides) for e in views if isinstance(e, TensorSpec)]
        steps.append(repr((described, layouts)))
    return hashlib.sha256("\n".join(sorted(steps)).encode()).digest()


def _check(plan: Plan) -> None:
    for what, count, most in (
        ("steps", len(plan.steps), MOST_STEPS),
        ("storages", len(plan.storages), MOST_STORAGES),
        ("kernels", len(plan.kernels), MOST_KERNELS),
    ):
        if count > most:
            raise PlanError(f"the plan has {count:,} {what}; at most {most:,} are executed")
    size = sum(storage.size for storage in plan.storages)
    if size > MOST_MEMORY:
        raise PlanError(f"the plan uses {size:,} bytes; at most {MOST_MEMORY:,} are allocated")
    names = [s.argument for s in plan.storages if isinstance(s, InputStorage)]
    if len(set(names)) < len(names):
        raise PlanError("the plan has two storages for one argument")
    defined = {n for n, storage in enumerate(plan.storages) if not isinstance(storage, MadeStorage)}
    for number, step in enumerate(plan.steps):
        where = f"step {number}"
        if isinstance(step, LaunchStep):
            _check_launch(plan, step, defined, where)
        else:
            _check_operator(plan, step, defined, where)
    for name, result in plan.results.items():
        if isinstance(result, TensorSpec):
            _check_view(plan, result, defined, f"result `{name[:80]}`")


def _check_launch(plan: Plan, step: LaunchStep, defined: set[int], where: str) -> None:
    if step.kernel >= len(plan.kernels):
        raise PlanError(f"{where}: there is no kernel {step.kernel}")
    if any(not 0 <= extent <= _MOST_PROGRAMS for extent in step.spec.grid):
        raise PlanError(f"{where}: the grid {step.spec.grid} is out of range")
    for argument in step.spec.arguments:
        value = argument.value
        if isinstance(value, ObjectSpec):
            raise PlanError(f"{where}: argument `{argument.name[:80]}` is an object, not a tensor")
        if isinstance(value, TensorSpec):
            if not argument.type.startswith("*"):
                raise PlanError(f"{where}: argument `{argument.name[:80]}` is not a pointer")
            _check_view(plan, value, defined, where)
        elif argument.type.startswith("*") and value is not None:
            # A number would be used as an address in the process that executes the plan.
            raise PlanError(f"{where}: pointer `{argument.name[:80]}` is a number")


def _check_operator(plan: Plan, step: OperatorStep, defined: set[int], where: str) -> None:
    if base_name(step.operator) not in OPERATORS:
        raise PlanError(f"operator `{step.operator[:80]}` is not among those that are replayed")
    for operand in (*step.arguments, *step.keywords.values()):
        _check_operand(plan, operand, defined, where)
    for view in step.results:
        if view.storage >= len(plan.storages):
            raise PlanError(f"{where}: there is no storage {view.storage}")
        defined.add(view.storage)
        _check_view(plan, view, defined, where)
    _check_positions(step, where)


def _check_positions(step: OperatorStep, where: str) -> None:
    """Check that a step's operands and results match the operator's declaration.

    Each operand must be passed where the operator declares it, and an operand that the operator
    writes to and returns must be the result. Otherwise, a plan could hide an operand, or have two
    storages for the same memory.
    """
    operator = find_operator(step.operator)
    if operator is None:
        return
    written = []
    for number, parameter in enumerate(operator._schema.arguments):
        if parameter.name in step.keywords and not parameter.kwarg_only:
            raise PlanError(f"{where}: the operand `{parameter.name}` is passed by its name")
        operand = step.keywords.get(parameter.name)
        operand = step.arguments[number] if number < len(step.arguments) else operand
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            written.append(operand)
    returns = zip(operator._schema.returns, step.results, strict=False)
    changed = [view for returned, view in returns if returned.alias_info is not None]
    for operand, view in zip(written, changed, strict=False):
        if not isinstance(operand, TensorSpec) or operand.storage != view.storage:
            raise PlanError(f"{where}: a result and the operand that it is have two storages")


def _check_operand(plan: Plan, operand: Any, defined: set[int], where: str) -> None:
    if isinstance(operand, Items):
        for item in operand.items:
            _check_operand(plan, item, defined, where)
    elif isinstance(operand, TensorSpec):
        _check_view(plan, operand, defined, where)
    elif isinstance(operand, int) and not -(2**63) <= operand < 2**63:
        raise PlanError(f"{where}: the number {operand} has more than 64 bits")


def _check_view(plan: Plan, view: TensorSpec, defined: set[int], where: str) -> None:
    if view.storage not in defined:
        raise PlanError(f"{where}: storage {view.storage} is used before it is made")
    item = ITEM_BYTES.get(view.dtype)
    if item is None or item != view.itemsize or view.offset % item:
        raise PlanError(f"{where}: a tensor of `{view.dtype[:40]}` is described inconsistently")
    if any(stride < 0 for stride in view.strides):
        raise PlanError(f"{where}: a tensor has negative strides")
    size = plan.storages[view.storage].size
    if view.span[1] > size:
        raise PlanError(f"{where}: a tensor reaches beyond the {size:,} bytes of its storage")
