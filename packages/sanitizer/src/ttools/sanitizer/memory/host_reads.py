"""Sees what the host reads of tensors: operators of torch, NumPy arrays, lists, printed tensors.

Operators are seen by a dispatch mode, which only a thread with something to watch has. It lies
beneath all modes of the program, so that those may end as they began, and TorchDynamo passes it
over. A backward pass gives each of its steps, in whatever thread, the modes that there were when it
began: so a pass that calls Python, which may launch kernels, has the mode from its beginning, and
behind each pass it is put into its thread again; and in threads that begin meanwhile. What leaves
torch's dispatcher is seen at the methods that do so. Not seen are what threads read that run
already, and code that TorchInductor has compiled.

Must not know what is watched, nor why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, Literal, Protocol, TypeAlias

from ttools.core.patches import Patches

#: Operators that ask for the shape of a tensor only, by the beginnings and ends of their names.
_SHAPE_ONLY = ("new_", "sym_", "is_", "set_", "resize", "_unsafe_view", "_has_", "record_stream")
_SHAPE_ONLY_ENDS = ("_like",)
#: Operators that hand on some elements of their operands, and leave others out.
_CHOOSING = frozenset(
    {"where", "masked_select", "masked_fill", "masked_scatter", "index", "index_select", "gather"}
    | {"take", "take_along_dim", "embedding", "index_copy", "index_put", "scatter", "tril", "triu"}
    | {"constant_pad_nd"}
)
#: Operators in place that change some elements, or none, and read no others.
_OVERWRITING_SOME = frozenset(
    {"fill_diagonal_", "masked_fill_", "masked_scatter_", "index_fill_", "index_copy_"}
    | {"index_put_", "put_", "_index_put_impl_", "index_add_", "index_reduce_", "scatter_"}
    | {"scatter_add_", "scatter_reduce_", "set_", "resize_", "resize_as_", "detach_"}
    | {"requires_grad_", "rename_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_"}
    | {"unsqueeze_", "as_strided_"}
)
#: Those, and operators in place that write all elements without reading them; others read what they
#: write.
_OVERWRITING = _OVERWRITING_SOME | frozenset(
    {"fill_", "zero_", "copy_", "_foreach_zero_", "_foreach_copy_", "random_", "normal_"}
    | {"uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_"}
)
#: Operators that make a tensor of all elements of another.
_COPYING = frozenset({"clone", "_to_copy", "copy_", "_pin_memory"})
#: Operators that are others in place, made functions: `self` has the shape of the result.
_FUNCTIONS = frozenset({"copy", "fill", "zero", "uniform", "random", "exponential", "geometric"})
#: Methods by which elements leave torch: those of the memory itself, and their values.
_LEAVING, _SHOWING = ("numpy", "__dlpack__", "__reduce_ex__"), ("tolist",)


How: TypeAlias = Literal["computing", "copying", "leaving"]


class Reader(Protocol):
    """Receives what the host does to tensors."""

    def reads(
        self,
        tensor: Any,
        result: Any = None,
        again: Callable[[], Any] | None = None,
        *,
        how: How = "computing",
    ) -> None:
        """Elements of a tensor are about to be read.

        Args:
            tensor: A tensor with ordinary memory, or without any.
            result: What was made of the tensor, if that holds only some of those elements.
            again: Makes the result once more; None if all elements count.
            how: Whether they leave torch, which may be to be written, or are just copied.
        """

    def copied(self, tensor: Any, copy: Any) -> None:
        """All elements of a tensor were copied to another."""

    def writes(self, tensor: Any, *, is_whole: bool = True) -> None:
        """Elements of a tensor are about to be overwritten: all of them, or else some."""


class KernelReads:
    """While it is entered, what its thread reads is read by a launch; each launch enters it.

    Args:
        own: what threads say of themselves, in `reads`.
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
    """Tells of reads while it is asked to.

    Args:
        reader: receives them.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._passes, self._patches = Patches(self._follow), Patches(self._install)
        self._mode: Any = None
        self._open = self._patched = self._tells = False

    def open(self) -> None:
        """Follows backward passes and threads, for it may be asked while one of them runs."""
        if not self._open:
            self._open = True
            self._passes.__enter__()

    def begin(self) -> None:
        """From now on this thread's operators are seen, and what leaves torch in any thread."""
        if not self._patched:
            self._patches.__enter__()
            self._patched = True
        self._tells = True
        self._see()

    def _see(self) -> None:
        """Puts the mode into this thread, where it may have been before."""
        if self._mode is None:
            self._mode = _mode(self._reader, lambda: self._tells)
        if self._mode not in _modes()._get_current_dispatch_mode_stack():
            _put_beneath(self._mode)

    def end(self) -> None:
        """Ends that for the operators of this thread, which then take no longer than usual."""
        self._tells = False
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

        def see() -> None:
            if self._tells:
                self._see()

        def throughout(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
                if _calls_python(outputs):
                    self._see()
                try:
                    return original(outputs, *args, **kwargs)
                finally:
                    if self._tells:
                        self._see()
                    else:
                        self.end()

            return backward

        def before(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def begin(thread: threading.Thread) -> Any:
                see()
                return original(thread)

            return begin

        patches.wrap(torch.autograd, "_engine_run_backward", throughout)
        patches.wrap(threading.Thread, "_bootstrap_inner", before)

    def _install(self, patches: Patches) -> None:
        import torch
        import torch._tensor_str

        def telling(how: How) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
                @wraps(original)
                def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                    self._reader.reads(tensor, how=how)
                    return original(tensor, *args, **kwargs)

                return method

            return wrapped

        for name in _LEAVING:
            patches.wrap(torch.Tensor, name, telling("leaving"))
        for name in _SHOWING:
            patches.wrap(torch.Tensor, name, telling("computing"))
        patches.wrap(torch._tensor_str, "_str", telling("computing"))


def _calls_python(outputs: Any) -> bool:
    """Whether a backward pass from some tensors or edges comes to a function written in Python."""
    import torch

    pending = [getattr(each, "grad_fn", None) or getattr(each, "node", None) for each in outputs]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, torch._C._FunctionBase):
            return True
        seen.add(node)
        pending += [following for following, _ in node.next_functions]
    return False


def _mode(reader: Reader, tells: Callable[[], bool]) -> Any:
    """A dispatch mode that, where it is to, tells a reader of what operators do, and no more."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """See `HostReads`."""

        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """TorchDynamo compiles what it meets, as without this mode."""
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            use = _use_of(func) if tells() else None
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
            # What has changed its operands cannot be made again: then all that it may read counts.
            again = None if use.written else lambda: func(*args, **kwargs)
            for tensor in read:
                reader.reads(tensor, result, again)
            return result

    return Reading()  # type: ignore[no-untyped-call]


class _Use:
    """What an operator does to its arguments: the names and positions of those read and written."""

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
    """None for operators of whose reads nothing is known, and those that read nothing."""
    if getattr(func, "namespace", "") not in ("aten", "prims"):
        return None
    use = _Use(func)
    return use if use.read or use.written else None


def _asks_for_shape(name: str, argument: str) -> bool:
    if name in _FUNCTIONS and argument == "self":
        return True
    return name.startswith(_SHAPE_ONLY) or name.endswith(_SHAPE_ONLY_ENDS)


def _picked(args: Sequence[Any], kwargs: Any, which: list[tuple[int, str]]) -> Iterator[Any]:
    """The tensors among some arguments, also those in lists."""
    import torch

    for position, name in which:
        value = args[position] if position < len(args) else kwargs.get(name)
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


def _put_beneath(mode: Any) -> None:
    """Puts a mode beneath those that the program has entered."""
    above = _pop_all()
    for each in [mode, *reversed(above)]:
        _modes()._push_mode(each)


def _take_out(mode: Any) -> None:
    """Takes a mode away, wherever it is, but where it is being called."""
    if mode in _modes()._get_current_dispatch_mode_stack():
        for each in reversed(_pop_all()):
            if each is not mode:
                _modes()._push_mode(each)


def _pop_all() -> list[Any]:
    """Takes all modes of the program away, the uppermost first; torch's own stay."""
    modes = _modes()
    stack = modes._get_current_dispatch_mode_stack()
    count = sum(getattr(each, "_mode_key", None) is None for each in stack)
    return [modes._pop_mode() for _ in range(count)]


def _modes() -> Any:
    import torch.utils._python_dispatch as modes

    return modes
