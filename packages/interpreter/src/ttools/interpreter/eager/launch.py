"""Launches a kernel eagerly; provides the object that Triton uses in place of a compiled kernel.

The arguments of a launch are converted to the values that the kernel's Python code uses, and the
programs run one at a time in the thread of the launch. Further threads are needed only if a program
waits for memory that another program writes. Suppose that program 0 waits until program 1 has set a
flag:

1. Program 0 reads the flag repeatedly. `Memory.watch` notices that the result does not change, and
   calls `Scheduler.wait`.
2. `wait` blocks program 0: its thread waits for a semaphore, the program's baton. A new thread
   starts program 1, which sets the flag, and then programs 2, 3, ….
3. When no program is left to start, or when the running program waits, too, a blocked program whose
   memory has changed is resumed by releasing its baton. Here this is program 0.

Since a thread only releases a baton when it ends or blocks its own program, only one thread runs at
a time.
"""

from __future__ import annotations

import bdb
import contextvars
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ttools.core.device_map.graphs.capture import capturing
from ttools.core.errors import TtoolsError
from ttools.core.process import interruptible
from ttools.core.process.thread_limit import starting_thread
from ttools.core.spec import coordinates
from ttools.core.triton_versions import is_descriptor, language_type, launch_metadata
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.module import MemoryEffects
from ttools.interpreter.analysis.address_sources import AddressSources
from ttools.interpreter.eager import language
from ttools.interpreter.eager.builder import EagerBuilder
from ttools.interpreter.eager.combine import eager_semantic_class
from ttools.interpreter.eager.debugging.frames import from_the_kernel_on, without_machinery
from ttools.interpreter.eager.descriptors import Descriptor
from ttools.interpreter.eager.elements import Handle, element
from ttools.interpreter.eager.functions import begin_launch, function_for
from ttools.interpreter.eager.groups import DivergedError, GroupError, OwnedElements, group_size
from ttools.interpreter.eager.memory import Memory
from ttools.interpreter.eager.session import Program, Session, current, running
from ttools.interpreter.eager.values import EagerConstexpr, EagerTensor, lift, tuple_of
from ttools.interpreter.frontend.options import (
    CPUOptions,
    codegen_implementation,
    parse_options,
)
from ttools.interpreter.run.benchmark import is_timed
from ttools.interpreter.run.device_copies import HostCopies, has_device_memory
from ttools.interpreter.run.graph_launches import record_launch
from ttools.interpreter.run.interpretation import Run, receive_launch
from ttools.interpreter.runtime.launch_options import Grouping, LaunchOptions
from ttools.interpreter.runtime.selection import arrange

#: The largest number of blocked programs. When it is reached, no further program is started before
#: one of them continues.
_MOST_BLOCKED = 256


class _AbandonedError(BaseException):
    """Raised in a blocked program to end it, because another program has failed."""


@dataclass(eq=False)
class _BlockedProgram:
    """A program that waits.

    Attributes:
        address: Address that the program reads repeatedly.
        contents: Bytes that the program last read there.
        baton: Semaphore that is released to let the program continue.
    """

    program: Program
    address: int
    contents: bytes
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def may_go_on(self) -> bool:
        """Return whether the memory has changed since the program read it."""
        return ctypes.string_at(self.address, len(self.contents)) != self.contents


class Scheduler:
    """Runs the programs of a launch.

    Args:
        session: Session of the launch.
        programs: Ids of the programs in the order in which they start.
        run: Runs the session's current program to its end.
    """

    def __init__(
        self, session: Session, programs: Iterable[Program], run: Callable[[], None]
    ) -> None:
        self._session = session
        self._rest = deque(programs)
        self._run = run
        self._blocked: list[_BlockedProgram] = []
        self._error: BaseException | None = None
        self._has_threads = False
        self._over = threading.Semaphore(0)

    @property
    def waiting(self) -> list[Program]:
        return [blocked.program for blocked in self._blocked]

    def run(self) -> None:
        """Run all programs; an exception in one of them ends the launch."""
        try:
            self._work()
        except _AbandonedError:
            pass
        except Exception as error:  # noqa: BLE001 - raised again, when other programs have ended
            self._error = self._error or error
        except BaseException as error:
            # The user pressed Ctrl-C or left the debugger. Blocked programs end when they wake up.
            self._error = error
            for blocked in self._blocked:
                blocked.baton.release()
            raise
        if self._has_threads:
            self._pass_on()
            interruptible.acquire(self._over)
        if self._error is not None:
            raise self._error

    def wait(self, address: int, seen: bytes) -> bool:
        """Run other programs while the current one waits for memory.

        Args:
            address: Address that the program reads repeatedly.
            seen: Bytes that the program last read there.

        Returns:
            True if other programs ran; False if none could.
        """
        if self._error is not None:
            raise _AbandonedError
        ready = next((blocked for blocked in self._blocked if blocked.may_go_on), None)
        may_begin = bool(self._rest) and len(self._blocked) < _MOST_BLOCKED
        if ready is None and not may_begin:
            return False
        me = _BlockedProgram(self._session.program, address, seen)
        self._blocked.append(me)
        if ready is not None:
            self._resume(ready)
        else:
            self._begin_thread()
        interruptible.acquire(me.baton)
        if self._error is not None:
            raise _AbandonedError
        self._session.program = me.program
        return True

    # ---- threads

    def _work(self) -> None:
        while self._rest and self._error is None:
            self._session.program = self._rest.popleft()
            self._run()

    def _begin_thread(self) -> None:
        self._has_threads = True
        context = contextvars.copy_context()
        trace = sys.gettrace()
        # Python's debuggers trace only the thread in which they were started, so the trace function
        # is passed on. The debuggers of editors trace new threads themselves.
        own = trace if isinstance(getattr(trace, "__self__", None), bdb.Bdb) else None
        thread = threading.Thread(
            target=context.run, args=(self._in_thread, own), name="eager programs", daemon=True
        )
        with starting_thread():
            thread.start()

    def _in_thread(self, trace: Any) -> None:
        if trace is not None:
            sys.settrace(trace)
        try:
            self._work()
        except _AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the launch's thread
            self._error = self._error or error.with_traceback(
                from_the_kernel_on(error.__traceback__)
            )
        finally:
            sys.settrace(None)
        self._pass_on()

    def _resume(self, one: _BlockedProgram) -> None:
        self._blocked.remove(one)
        one.baton.release()

    def _pass_on(self) -> None:
        """Resume a blocked program when this thread ends, or end the launch if there is none."""
        if not self._blocked:
            self._over.release()
            return
        ready = (blocked for blocked in self._blocked if blocked.may_go_on)
        self._resume(next(ready, self._blocked[0]))


#: The effects of a kernel that was not compiled are unknown, so it may write anything.
_ANY_EFFECT = MemoryEffects(frozenset(), False, unknown_writes=True, indirect=True)
_DEFAULT = LaunchOptions()


class EagerKernel:
    """The eager counterpart of Triton's `CompiledKernel`, for one specialisation of a kernel.

    Args:
        function: The kernel, a `JITFunction`.
        signature: Triton type of each parameter.
        options: Launch options, as the backend parsed them.
        codegen: Functions of the code generator that the backend supplies.
    """

    def __init__(
        self, function: Any, signature: Mapping[str, Any], options: Any, codegen: Any
    ) -> None:
        self._jit = function
        self._signature = dict(signature)
        self._options = options
        self._codegen = codegen
        self.name = str(function.fn.__name__)
        self.function = self
        self.asm: dict[str, Any] = _NotCompiled()
        self.n_regs, self.n_spills, self.n_max_threads = 32, 0, 1024
        self.metadata = SimpleNamespace(name=self.name, shared=1024, **vars(options))
        self.packed_metadata = (options.num_warps, options.num_ctas, 1024)

    def _init_handles(self) -> None:
        """Do nothing, because there is no native code to load."""

    def result(self) -> EagerKernel:
        """Return the kernel itself; Triton calls this on the future of a compilation."""
        return self

    def launch_metadata(self, grid: Any, stream: Any, *arguments: Any) -> Any:
        """Return the metadata that launch hooks receive."""
        return launch_metadata({"name": self.name, "function": self, "stream": stream})

    def run(
        self,
        grid_x: Any,
        grid_y: Any,
        grid_z: Any,
        stream: object,
        function: object,
        packed_metadata: object,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *arguments: Any,
    ) -> None:
        """Run the programs one after another, in this thread.

        Raises:
            KernelError: A program failed or left the memory of its arguments.
        """
        __tracebackhide__ = True
        if is_timed(self.name):
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        grid, run = receive_launch(self.name, (grid_x, grid_y, grid_z))
        capture = capturing()
        if capture is None:
            self._launch(grid, arguments, run)
        else:
            launch = partial(self._launch, grid)
            record_launch(capture, self.name, arguments, run, launch)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(
        self, grid: tuple[int, int, int], arguments: Sequence[Any], run: Run | None
    ) -> None:
        __tracebackhide__ = True
        plan = ArgumentPlan(list(self._signature), list(self._signature.values()))
        flat = plan.flatten(arguments)
        values = flat
        copies = None
        if has_device_memory():
            copies = HostCopies(plan, AddressSources(anywhere=True))
            values = copies.replace(flat)
            copies.keep(_ANY_EFFECT)
        if run is not None:
            run.statistics.of(self.name)  # list the kernel even if the launch fails
        started = time.perf_counter()
        options = run.launch_options if run is not None else _DEFAULT
        try:
            count = self._execute(grid, arguments, plan, flat, values, options)
        finally:
            if copies is not None:
                copies.write_back(_ANY_EFFECT)
        if run is not None:
            run.statistics.count_launch(self.name, count, time.perf_counter() - started)

    def run_programs(
        self,
        grid: Sequence[int],
        arguments: Sequence[Any],
        values: Sequence[Any],
        programs: str,
        grouping: Grouping | None = None,
    ) -> None:
        """Run some programs of a launch without launch hooks; its memory is already on the host.

        Args:
            grid: One to three extents.
            arguments: Argument of each parameter of the function, including constants.
            values: Flattened arguments without constants; the programs access their memory.
            programs: Selection of the programs to run, in the syntax of `selection`.
            grouping: Lets programs run in groups. The kernel must then not synchronise. By default,
                programs run one after the other.

        Raises:
            KernelError: A program failed or left the memory of its arguments.
            GroupError: The programs cannot run in groups. Some may have changed memory.
        """
        plan = ArgumentPlan(list(self._signature), list(self._signature.values()))
        x, y, z = (*map(int, grid), 1, 1, 1)[:3]
        options = LaunchOptions(programs=programs)
        self._execute(
            (x, y, z), arguments, plan, plan.flatten(arguments), values, options, grouping
        )

    def _execute(
        self,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        plan: ArgumentPlan,
        given: Sequence[Any],
        values: Sequence[Any],
        options: LaunchOptions,
        grouping: Grouping | None = None,
    ) -> int:
        """Run the programs and return their number."""
        __tracebackhide__ = True
        raw = plan.pack(values)
        memory = Memory()
        for slot in sorted(plan.pointers):
            memory.add(plan.names[slot], given[slot], values[slot], raw[slot])
        session = new_session(self.name, grid, memory, self._options, self._codegen)
        session.owned = None if grouping is None else OwnedElements(grouping.written)
        try:
            with running(session):
                taken = _Arguments(plan, raw)
                lifted = [
                    taken.value(value, type)
                    for value, type in zip(arguments, self._signature.values(), strict=True)
                ]
                return self._programs(session, lifted, options, grouping)
        except Exception as error:  # noqa: BLE001 - raised again, without our frames
            if isinstance(error, TtoolsError):
                error.add_during(f"running kernel `{self.name}` eagerly with grid {grid}")
            raise error.with_traceback(without_machinery(error.__traceback__))  # noqa: B904 - itself

    def _programs(
        self,
        session: Session,
        arguments: list[Any],
        options: LaunchOptions,
        grouping: Grouping | None,
    ) -> int:
        begin_launch()
        function = function_for(self._jit)
        total = prod(session.grid)
        if not total:
            return 0
        order = arrange(session.grid, options.order, options.seed, options.programs)
        chosen = range(total) if order is None else order.tolist()
        if grouping is not None:
            chosen = sorted(chosen, key=lambda number: number != grouping.first)
        programs = (coordinates(n, session.grid) for n in chosen)
        if grouping is not None:
            _run_groups(session, programs, lambda: function(*arguments))
            return len(chosen)
        scheduler = session.memory.others = Scheduler(
            session, programs, lambda: function(*arguments)
        )
        scheduler.run()
        return len(chosen)


def _run_groups(session: Session, programs: Iterable[Program], run: Callable[[], None]) -> None:
    """Run programs in groups; the first program runs alone, to find out how large its values are.

    Args:
        session: Session of the launch.
        programs: Ids of the programs.
        run: Runs the programs of the session's current group to their end.
    """
    owned = session.owned
    assert owned is not None
    remaining = iter(programs)
    waiting = deque([[next(remaining)]])
    while waiting:
        group = waiting.popleft()
        session.program, session.group = group[0], group if len(group) > 1 else None
        owned.begin()
        try:
            run()
        except DivergedError as error:
            if not owned.may_restart:
                raise GroupError("programs that have changed memory cannot start again") from error
            waiting.extendleft(reversed(error.parts(group)))
        finally:
            size = group_size(session.largest // len(group))
            session.group, session.largest = None, max(1, session.largest // len(group))
        if not waiting:
            following = list(islice(remaining, size))
            if following:
                waiting.append(following)


def eager_twin(function: Any, signature: Mapping[str, Any], metadata: Any) -> EagerKernel:
    """Return the eager kernel that corresponds to a compiled one.

    Args:
        function: The kernel, a `JITFunction`.
        signature: Triton type of each parameter.
        metadata: Metadata of the compiled kernel, including the options it was compiled with.
    """
    options = parse_options({f.name: getattr(metadata, f.name, None) for f in fields(CPUOptions)})
    return EagerKernel(function, signature, options, codegen_implementation())


class _NotCompiled(dict[str, Any]):
    """The compilation stages (`kernel.asm`) of an eager kernel, which has none."""

    def __missing__(self, stage: str) -> Any:
        raise KeyError(f"there is no `{stage}`: the kernel ran eagerly and was not compiled")


def new_session(
    name: str, grid: tuple[int, int, int], memory: Memory, options: Any, codegen: Any
) -> Session:
    """Return a session in which programs can run."""
    session = Session(name, grid, memory, options, codegen, language)
    session.semantic = eager_semantic_class()(EagerBuilder(session))
    return session


class _Arguments:
    """Converts raw parameters, in order, to the values that the kernel's Python code uses.

    Args:
        plan: Names and types of the parameters.
        raw: Raw 64-bit values of the parameters.
    """

    def __init__(self, plan: ArgumentPlan, raw: Sequence[int]) -> None:
        self._plan = plan
        self._raw = raw
        self._slot = 0

    def value(self, argument: Any, type: Any) -> Any:
        """Return the value of a parameter.

        Args:
            argument: The Python argument; only read for constants and for the names of fields.
            type: Triton's type of the parameter.
        """
        if isinstance(type, tuple):
            items = [self.value(a, t) for a, t in zip(argument, type, strict=True)]
            return tuple_of(items, getattr(argument, "_fields", None))
        if type == "constexpr":
            return EagerConstexpr(argument)
        if is_descriptor(type):
            return self._descriptor(argument, type)
        return EagerTensor(self._scalar(), language_type(type))

    def _scalar(self) -> Handle:
        type_name, name = self._plan.types[self._slot], self._plan.names[self._slot]
        bits = self._raw[self._slot]
        self._slot += 1
        kind = element(str(language_type(type_name).to_ir(current().semantic.builder)))
        data = np.frombuffer(bits.to_bytes(8, "little")[: kind.size], kind.dtype)[0]
        return Handle(np.asarray(data), kind, name if kind.is_pointer else None)

    def _descriptor(self, argument: Any, type: str) -> Any:
        described = language_type(type)
        rank = len(described.shape_type.types)
        base = self._scalar()
        shape = [self._scalar() for _ in range(rank)]
        strides = [self._scalar() for _ in range(rank)]
        while self._plan.types[self._slot] == "i1":  # flags, such as the padding, are not needed
            self._slot += 1
        own_shape = [self._scalar() for _ in range(rank)]
        own_strides = [self._scalar() for _ in range(rank)]
        block = described.block_type
        handle = Descriptor(
            base,
            tuple(int(n.data) for n in shape),
            tuple(int(n.data) for n in strides),
            tuple(int(n) for n in block.shape),
            bool(block.element_ty.is_int() and block.element_ty.is_int_signed()),
            str(argument.padding) == "nan",
        )
        return lift(described._unflatten_ir([handle, *own_shape, *own_strides], 0)[0])
