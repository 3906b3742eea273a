"""Observes the host's reads of tensors: by operators, as NumPy arrays and lists, and by printing.

Operators are observed by a dispatch mode, which is installed only in threads that have something to
watch. It lies below all modes of the program, so that the program can remove its own modes in the
usual order. TorchDynamo ignores it. In each step of a backward pass, in any thread, the active
modes are those that were active when the pass began. Therefore, a pass that calls Python (which may
launch kernels) starts with the mode, and the mode is installed again after each pass and in each
new thread. Where values leave torch's dispatcher, the methods that return them are observed. Reads
by threads that are already running, and by code that TorchInductor has compiled, are not observed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, Literal, Protocol, TypeAlias

from ttools.core.patches import Patches

#: Operators that only use the shape of a tensor, given by prefixes and suffixes of their names.
_SHAPE_ONLY = ("new_", "sym_", "is_", "set_", "resize", "_unsafe_view", "_has_", "record_stream")
_SHAPE_ONLY_ENDS = ("_like",)
#: Operators that select elements of their operands.
_CHOOSING = frozenset(
    {"where", "masked_select", "masked_fill", "masked_scatter", "index", "index_select", "gather"}
    | {"take", "take_along_dim", "embedding", "index_copy", "index_put", "scatter", "tril", "triu"}
    | {"constant_pad_nd"}
)
#: In-place operators that change some elements or none, and that do not read the other elements.
_OVERWRITING_SOME = frozenset(
    {"fill_diagonal_", "masked_fill_", "masked_scatter_", "index_fill_", "index_copy_"}
    | {"index_put_", "put_", "_index_put_impl_", "index_add_", "index_reduce_", "scatter_"}
    | {"scatter_add_", "scatter_reduce_", "set_", "resize_", "resize_as_", "detach_"}
    | {"requires_grad_", "rename_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_"}
    | {"unsqueeze_", "as_strided_"}
)
#: All in-place operators that do not read the elements that they write: those above, and those that
#: write all elements.
_OVERWRITING = _OVERWRITING_SOME | frozenset(
    {"fill_", "zero_", "copy_", "_foreach_zero_", "_foreach_copy_", "random_", "normal_"}
    | {"uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_"}
)
#: Operators that copy all elements of a tensor.
_COPYING = frozenset({"clone", "_to_copy", "copy_", "_pin_memory"})
#: Functional variants of in-place operators, which only use the shape of `self`.
_FUNCTIONS = frozenset({"copy", "fill", "zero", "uniform", "random", "exponential", "geometric"})
#: Methods through which memory leaves torch, and methods through which values do.
_LEAVING, _SHOWING = ("numpy", "__dlpack__", "__reduce_ex__"), ("tolist",)


ReadKind: TypeAlias = Literal["computing", "copying", "leaving"]


class Reader(Protocol):
    """Receives notifications of accesses to tensors by the host."""

    def reads(
        self,
        tensor: Any,
        result: Any = None,
        again: Callable[[], Any] | None = None,
        *,
        how: ReadKind = "computing",
    ) -> None:
        """Handle a read of a tensor's elements before it happens.

        Args:
            tensor: A tensor with ordinary memory or with no memory.
            result: Result of the operator, if the operator may use only some of the elements.
            again: Computes the result again; None if all elements are read.
            how: `leaving` if other code receives the memory and may write to it, `copying` for
                plain copies, or `computing` for other operators.
        """

    def copied(self, tensor: Any, copy: Any) -> None:
        """Handle a copy of all elements of a tensor to another tensor."""

    def writes(self, tensor: Any, *, is_whole: bool = True) -> None:
        """Handle a write to all or some elements of a tensor before it happens."""


class KernelReads:
    """A context in which reads of this thread belong to a launch; every launch enters it.

    Args:
        own: Thread-local state, whose attribute `reads` is True inside the context.
    """

    __slots__ = ("_before", "_own")

    def __init__(self, own: threading.local) -> None:
        self._own = own

    def __enter__(self) -> None:
        self._before = getattr(self._own, "reads", False)
        self._own.reads = True

    def __exit__(self, *_: object) -> None:
        self._own.reads = self._before


class HostReads:
    """Reports the host's reads to a reader while it is enabled."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._passes, self._patches = Patches(self._follow), Patches(self._install)
        self._mode: Any = None
        self._open = self._patched = self._is_reporting = False

    def open(self) -> None:
        """Follow backward passes and threads.

        This is necessary before `begin`, which may be called while a pass or a thread is running.
        """
        if not self._open:
            self._open = True
            self._passes.__enter__()

    def begin(self) -> None:
        """Start observing this thread's operators, and values that leave torch in any thread."""
        if not self._patched:
            self._patches.__enter__()
            self._patched = True
        self._is_reporting = True
        self._enter_mode()

    def _enter_mode(self) -> None:
        """Install the mode in this thread unless it is already installed."""
        if self._mode is None:
            self._mode = _mode(self._reader, lambda: self._is_reporting)
        if self._mode not in _modes()._get_current_dispatch_mode_stack():
            _put_beneath(self._mode)

    def end(self) -> None:
        """Stop observing this thread's operators, so that they run at their usual speed."""
        self._is_reporting = False
        if self._mode is not None:
            _take_out(self._mode)

    def close(self) -> None:
        self.end()
        if self._patched:
            self._patched = False
            self._patches.__exit__()
        if self._open:
            self._open = False
            self._passes.__exit__()

    def _follow(self, patches: Patches) -> None:
        import torch

        def throughout(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
                if _calls_python(outputs):
                    self._enter_mode()
                try:
                    return original(outputs, *args, **kwargs)
                finally:
                    if self._is_reporting:
                        self._enter_mode()
                    else:
                        self.end()

            return backward

        def before(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def begin(thread: threading.Thread) -> Any:
                if self._is_reporting:
                    self._enter_mode()
                return original(thread)

            return begin

        patches.wrap(torch.autograd, "_engine_run_backward", throughout)
        patches.wrap(threading.Thread, "_bootstrap_inner", before)

    def _install(self, patches: Patches) -> None:
        import torch
        import torch._tensor_str

        def reporting(how: ReadKind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
                @wraps(original)
                def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                    self._reader.reads(tensor, how=how)
                    return original(tensor, *args, **kwargs)

                return method

            return wrapped

        for name in _LEAVING:
            patches.wrap(torch.Tensor, name, reporting("leaving"))
        for name in _SHOWING:
            patches.wrap(torch.Tensor, name, reporting("computing"))
        patches.wrap(torch._tensor_str, "_str", reporting("computing"))


def _calls_python(outputs: Any) -> bool:
    """Return whether a backward pass from the given tensors or edges calls a Python function."""
    import torch

    pending = [
        getattr(output, "grad_fn", None) or getattr(output, "node", None) for output in outputs
    ]
    visited: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is None or node in visited:
            continue
        if isinstance(node, torch._C._FunctionBase):
            return True
        visited.add(node)
        pending += [following for following, _ in node.next_functions]
    return False


def _mode(reader: Reader, is_reporting: Callable[[], bool]) -> Any:
    """Return a dispatch mode that reports what operators do while `is_reporting` returns True."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """The mode; see `HostReads`."""

        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Tell TorchDynamo to compile as if this mode did not exist."""
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            use = _use_of(func) if is_reporting() else None
            if use is None:
                return func(*args, **kwargs)
            read = list(_picked(args, kwargs, use.read))
            if not use.chooses:
                for tensor in read:
                    reader.reads(tensor, how="copying" if use.copies else "computing")
            for tensor in _picked(args, kwargs, use.written):
                reader.writes(tensor, is_whole=use.overwrites)
            if not use.chooses:
                result = func(*args, **kwargs)
                if use.copies and read:
                    reader.copied(read[0], result)
                return result
            result = func(*args, **kwargs)
            # An operator that modifies its operands cannot be repeated, so all elements count as
            # read.
            again = None if use.written else lambda: func(*args, **kwargs)
            for tensor in read:
                reader.reads(tensor, result, again)
            return result

    return Reading()  # type: ignore[no-untyped-call]


class _Use:
    """The positions and names of the arguments that an operator reads and writes."""

    __slots__ = ("chooses", "copies", "overwrites", "read", "written")

    def __init__(self, func: Any) -> None:
        name = func._schema.name.rpartition("::")[2]
        self.chooses = name.removesuffix("_") in _CHOOSING
        self.copies = name in _COPYING
        self.overwrites = name not in _OVERWRITING_SOME
        self.read: list[tuple[int, str]] = []
        self.written: list[tuple[int, str]] = []
        for position, argument in enumerate(func._schema.arguments):
            alias = argument.alias_info
            if "Tensor" not in str(argument.type):
                continue
            at = position, argument.name
            if alias is not None and alias.is_write:
                self.written.append(at)
                if name.endswith("_") and name not in _OVERWRITING:
                    self.read.append(at)
            elif alias is None and not _asks_for_shape(name, argument.name):
                self.read.append(at)


@lru_cache(maxsize=4096)
def _use_of(func: Any) -> _Use | None:
    """Return the arguments that an operator uses; None if it uses none or is unknown."""
    if getattr(func, "namespace", "") not in ("aten", "prims"):
        return None
    use = _Use(func)
    return use if use.read or use.written else None


def _asks_for_shape(name: str, argument: str) -> bool:
    if name in _FUNCTIONS and argument == "self":
        return True
    return name.startswith(_SHAPE_ONLY) or name.endswith(_SHAPE_ONLY_ENDS)


def _picked(args: Sequence[Any], kwargs: Any, which: list[tuple[int, str]]) -> Iterator[Any]:
    """Yield the tensors among the chosen arguments, including those in lists."""
    import torch

    for position, name in which:
        value = args[position] if position < len(args) else kwargs.get(name)
        for element in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(element, torch.Tensor):
                yield element


def _put_beneath(mode: Any) -> None:
    """Put a mode below the modes that the program has entered."""
    above = _pop_all()
    for entered in [mode, *reversed(above)]:
        _modes()._push_mode(entered)


def _take_out(mode: Any) -> None:
    """Remove a mode from the stack unless it is currently being called."""
    if mode in _modes()._get_current_dispatch_mode_stack():
        for entered in reversed(_pop_all()):
            if entered is not mode:
                _modes()._push_mode(entered)


def _pop_all() -> list[Any]:
    """Pop all modes of the program, topmost first; leave torch's own modes in place."""
    modes = _modes()
    stack = modes._get_current_dispatch_mode_stack()
    count = sum(getattr(entered, "_mode_key", None) is None for entered in stack)
    return [modes._pop_mode() for _ in range(count)]


def _modes() -> Any:
    import torch.utils._python_dispatch as modes

    return modes
