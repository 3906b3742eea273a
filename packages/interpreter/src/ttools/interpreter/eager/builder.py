"""Builder for Triton's semantic layer that computes each operation immediately.

Operations that depend on the program, such as `program_id`, or that access memory are implemented
here. All others are computed by NumPy (`numpy_ops`) or by the native engine, for which a module
with that single operation is compiled (`mlir`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ttools.core.errors import KernelError, TtoolsError
from ttools.interpreter.abi.module import CallbackKind, Site
from ttools.interpreter.eager import descriptors, groups, mlir
from ttools.interpreter.eager.debugging.frames import location
from ttools.interpreter.eager.elements import Handle, element
from ttools.interpreter.eager.mlir import OpResults, SingleOp, ValueType
from ttools.interpreter.eager.numpy_ops import OPERATIONS
from ttools.interpreter.eager.observation import operation_observer
from ttools.interpreter.eager.session import Session
from ttools.interpreter.run.interpretation import active_run, dot_mode
from ttools.interpreter.runtime import printing

#: Mask of the bits of a timeout, which Triton converts to an unsigned integer.
_UNSIGNED = (1 << 64) - 1
_NOTHING = frozenset(
    (
        "create_barrier",
        "create_assume",
        "create_grid_dependency_wait",
        "create_grid_dependency_launch_dependents",
        "get_loc",
        "set_loc",
        "create_name_loc",
    )
)

# Compiled operations by name and types; each of them is compiled once per process.
_compiled: dict[object, SingleOp] = {}
# Attributes whose text does not describe them. Equal attributes must be the same object, because
# `_describe` distinguishes them by identity.
_attributes: dict[object, Any] = {}


class EagerBuilder:
    """The builder of one launch."""

    def __init__(self, session: Session) -> None:
        self.options = session.options
        self.codegen_fns = session.codegen
        self._session = session
        self._types = mlir.new_builder(session.options, session.codegen)
        self._methods: dict[str, Callable[..., Any]] = {
            "create_get_program_id": self._program_id,
            "create_get_num_programs": lambda axis: self._number(session.grid[axis]),
            "create_print": self._print,
            "create_assert": self._assert,
            "create_atomic_poll": self._poll,
            **dict.fromkeys(_NOTHING, lambda *_: None),
            **descriptors.METHODS,
        }
        if session.options.enable_fp_fusion:
            self._fuse_products()
        self._observer = operation_observer()
        if self._observer is not None:
            self._methods = {name: self._observed(name, m) for name, m in self._methods.items()}
        for name, verb in _ACCESSES.items():
            self._methods[name] = self._access(name, verb)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method of the builder."""
        method = self._methods.get(name)
        if method is None:
            if name in OPERATIONS:
                method = self._numeric(name, OPERATIONS[name])
            elif name.startswith("create_") and name != "create_tensor_descriptor_type":
                method = self._native(name)
            elif name in ("get_cache_policy",):
                method = self._attribute(name)
            else:
                method = getattr(self._types, name)  # types
            if self._observer is not None:
                method = self._observed(name, method)
            self._methods[name] = method
        return method

    def report(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """Pass an operation to the observer of operations, if there is one."""
        if self._observer is not None:
            self._observer.operation(name, arguments, result)

    def _observed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if not name.startswith("create_"):
            return method

        def compute(*arguments: Any) -> Any:
            result = method(*arguments)
            if isinstance(result, Handle):
                self._session.largest = max(self._session.largest, result.data.size)
            self.report(name, arguments, result)
            return result

        return compute

    def _fuse_products(self) -> None:
        """Fuse products with sums, by the rule of `analysis/contraction.py`."""
        multiply = self._numeric("create_fmul", OPERATIONS["create_fmul"])

        def product(a: Handle, b: Handle) -> Handle:
            result: Handle = multiply(a, b)
            result.factors = (a, b, self._session.iteration)
            return result

        negate = self._numeric("create_fneg", OPERATIONS["create_fneg"])

        def negated(value: Handle) -> Handle:
            result: Handle = negate(value)
            if value.factors is not None:  # a negated product is fused, too: -(x*y) is (-x)*y
                x, y, iteration = value.factors
                opposite = negate(x)
                self.report("create_fneg", (x,), opposite)
                result.factors = (opposite, y, iteration)
            return result

        def fused(name: str) -> Callable[[Handle, Handle], Any]:
            separate = self._numeric(name, OPERATIONS[name])

            def compute(a: Handle, b: Handle) -> Any:
                for position, value in enumerate((a, b)):
                    if value.factors is not None and value.factors[2] is self._session.iteration:
                        x, y, _ = value.factors
                        addend = (b, a)[position]
                        if name == "create_fsub":
                            opposite = self.create_fneg(x if position else addend)
                            x, addend = (opposite, addend) if position else (x, opposite)
                        return self.create_fma(x, y, addend)
                return separate(a, b)

            return compute

        self._methods["create_fmul"] = product
        self._methods["create_fneg"] = negated
        for name in ("create_fadd", "create_fsub"):
            self._methods[name] = fused(name)

    def _attribute(self, name: str) -> Callable[..., Any]:
        make = getattr(self._types, name)

        def attribute(*arguments: Any) -> Any:
            key = (name, *map(str, arguments))
            attribute = _attributes.get(key)
            if attribute is None:
                attribute = _attributes[key] = make(*arguments)
            return attribute

        return attribute

    def _numeric(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        native = self._native(name)

        def compute(*arguments: Any) -> Any:
            group = self._session.group
            with np.errstate(all="ignore"):
                if group is not None and groups.any_grouped(arguments):
                    result = groups.compute(name, function, arguments, len(group))
                else:
                    result = function(*arguments)
            return native(*arguments) if result is NotImplemented else result

        return compute

    def _native(self, name: str) -> Callable[..., Any]:
        def compute(*arguments: Any) -> Any:
            return self.native(name, arguments)

        return compute

    def native(
        self,
        name: str,
        arguments: Iterable[Any],
        write: Callable[..., Any] | None = None,
        key: object = None,
    ) -> Any:
        """Run an operation natively.

        Args:
            name: Name of the builder's method.
            arguments: Arguments of the method; values are handles.
            write: Called instead of the method, with an MLIR builder and the arguments.
            key: Distinguishes different `write` functions for the same name.
        """
        arguments = tuple(arguments)
        operands: list[Handle] = []
        shape_of_call = tuple(_describe(argument, operands) for argument in arguments)
        dot = dot_mode(active_run())
        cache_key = (name, key, shape_of_call, self.options.enable_fp_fusion, dot)
        compiled = _compiled.get(cache_key)
        if compiled is None:
            compiled = _compiled[cache_key] = self._compile(name, arguments, operands, write)
        is_grouped = any(operand.is_grouped for operand in operands)
        results = compiled.run(operands, self._session.group if is_grouped else None)
        if compiled.form == "value":
            return results[0]
        if compiled.form == "several":
            return results
        return OpResults(results) if compiled.form == "operation" else None

    def _compile(
        self,
        name: str,
        arguments: tuple[Any, ...],
        operands: list[Handle],
        write: Callable[..., Any] | None,
    ) -> SingleOp:
        def make(builder: Any, values: list[Any]) -> Any:
            handles = iter(values)
            real = [_replace(argument, handles) for argument in arguments]
            return write(builder, *real) if write else getattr(builder, name)(*real)

        types = [ValueType(o.element, o.shape, o.is_grouped) for o in operands]
        try:
            return mlir.compile_op(name, types, make, self.options, self.codegen_fns)
        except TtoolsError as error:
            if getattr(error, "location", None) is None and hasattr(error, "location"):
                error.location = location()
            error.add_during(f"running `{name.removeprefix('create_')}` eagerly")
            raise

    # ---- the program and its memory

    def _number(self, value: int) -> Handle:
        return Handle(np.asarray(value, np.int32), element("i32"))

    def _program_id(self, axis: int) -> Handle:
        session = self._session
        ids = np.array([program[axis] for program in session.group or [session.program]], np.int32)
        if (ids == ids[0]).all():
            return self._number(int(ids[0]))
        number = Handle(ids, element("i32"))
        number.is_grouped = True
        return number

    def _access(self, name: str, verb: str) -> Callable[..., Any]:
        session = self._session
        mask_at = _MASKS.get(name)
        pointer_at = 1 if name == "create_atomic_rmw" else 0

        def access(*arguments: Any) -> Any:
            mask = arguments[mask_at] if mask_at is not None else None
            pointer = arguments[pointer_at]
            session.memory.check(verb, pointer, mask, session.place)
            if session.owned is not None:
                if verb not in ("load", "store"):
                    raise groups.GroupError("programs with atomics run one after the other")
                is_store = verb == "store"
                session.owned.access(pointer, mask, session.numbers, is_store=is_store)
            result = self.native(name, arguments)
            if session.group is None:
                session.memory.watch(name, pointer, result, session.place)
            return result

        method = access if self._observer is None else self._observed(name, access)

        def access_by_all(*arguments: Any) -> Any:
            pointer = arguments[pointer_at]
            if session.group is None or pointer.is_grouped or not groups.any_grouped(arguments):
                return method(*arguments)
            own = pointer.with_data(groups.spread(pointer.data, pointer, len(session.group)))
            own.shadow, own.is_grouped = pointer.shadow, True
            return method(*arguments[:pointer_at], own, *arguments[pointer_at + 1 :])

        return access_by_all

    def _poll(self, pointer: Handle, expected: Handle, timeout: object, *_: Any) -> Handle:
        """Wait, for each lane, until memory holds the expected number or the timeout expires."""
        memory, place = self._session.memory, self._session.place
        memory.check("atomic load", pointer, None, place)
        budget = int(timeout.data) & _UNSIGNED if isinstance(timeout, Handle) else None
        began = time.monotonic_ns()
        is_equal = np.zeros(pointer.data.shape, np.bool_)
        for lane in np.ndindex(pointer.data.shape):
            wanted = expected.data[lane].tobytes()
            at = pointer.with_data(pointer.data[lane])
            is_over = False
            while True:
                current = ctypes.string_at(int(at.data), len(wanted))
                is_equal[lane] = current == wanted
                if is_equal[lane] or is_over:
                    break
                if budget is None:
                    value = np.frombuffer(current, expected.data.dtype)[0]
                    memory.watch("create_atomic_poll", at, expected.with_data(value), place)
                else:
                    # Other programs run only while this one waits, so let them run, and then read
                    # the memory again.
                    memory.wait(at, current)
                    is_over = time.monotonic_ns() - began >= budget
        return Handle(is_equal, element("i1"))

    def _print(self, prefix: str, hex: bool, values: list[Handle], signed: list[bool]) -> None:
        if self._observer is not None:
            return  # the original launch, which this one repeats, has printed this
        if self._session.owned is not None:
            raise groups.GroupError("programs that print run one after the other")
        operands_data = [np.ascontiguousarray(value.data) for value in values]
        table = (ctypes.c_void_p * max(len(operands_data), 1))(
            *(array.ctypes.data for array in operands_data)
        )
        operands = tuple(
            (value.element.text, value.data.shape, bool(hex), bool(sign))
            for value, sign in zip(values, signed, strict=True)
        )
        site = Site(CallbackKind.PRINT, None, prefix, operands)
        lines = printing.lines(site, self._session.program, ctypes.addressof(table))
        text = "".join(f"{line}\n" for line in lines)
        print(text, end="", flush=True)  # noqa: T201 - on behalf of the kernel

    def _assert(self, condition: Handle, message: str) -> None:
        if condition.data.all():
            return
        shape = condition.data.shape
        lane = (
            f", lane {np.argwhere(~condition.data)[0].tolist()} of {list(shape)}" if shape else ""
        )
        text = f" `{message}`" if message else ""
        raise KernelError(f"device_assert{text} failed in {self._session.place}{lane}", location())


#: The builder methods that access memory, and the name of each access in messages.
_ACCESSES = {
    "create_load": "load",
    "create_masked_load": "load",
    "create_store": "store",
    "create_masked_store": "store",
    "create_atomic_rmw": "atomic",
    "create_atomic_cas": "atomic",
    "create_atomic_load": "atomic load",
    "create_atomic_store": "atomic store",
}
#: The position of the mask among the arguments of each builder method that takes a mask.
_MASKS = {
    "create_masked_load": 1,
    "create_masked_store": 2,
    "create_atomic_rmw": 3,
    "create_atomic_load": 1,
    "create_atomic_store": 2,
}


def _describe(argument: Any, operands: list[Handle]) -> object:
    """Return the part of an argument that determines the compiled operation.

    Handles are appended to `operands`.
    """
    if isinstance(argument, Handle):
        operands.append(argument)
        return argument.element.text, argument.shape, argument.is_grouped
    if isinstance(argument, (list, tuple)):
        return tuple(_describe(item, operands) for item in argument)
    if isinstance(argument, (bool, int, float, str, bytes, type(None))):
        return type(argument).__name__, argument
    text = str(argument)
    # The text of a type or an enumerator describes it. Other objects are distinguished by identity.
    return text if " at 0x" not in text else id(argument)


def _replace(argument: Any, values: Any) -> Any:
    if isinstance(argument, Handle):
        return next(values)
    if isinstance(argument, (list, tuple)):
        return [_replace(item, values) for item in argument]
    return argument
