"""Records the torch operators that a program runs, and on how many elements.

A wrapper of a kernel may allocate, view and copy tensors, and make tables of constants. Operators
that compute are recorded: those on floats always, others because the process that compares decides
whether the reference needs them. The tensors that operators computed are compared with the result
of the call, even if they have few elements. Elements that leave torch, to NumPy or as Python
numbers, are recorded too, because the program can compute with them elsewhere.
"""

from __future__ import annotations

import hashlib
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ttools.core.ownership import owner_of_frame
from ttools.core.patches import Patches
from ttools.verifier.cases.tensors import raw_bytes
from ttools.verifier.workers.custom_operators import is_followed, looking_inside
from ttools.verifier.workers.recording import PlanRecorder

#: Operators that allocate, move elements or look at them, by their names without overloads.
MOVING = frozenset(
    [
        "empty",
        "empty_strided",
        "empty_like",
        "new_empty",
        "new_empty_strided",
        "empty_permuted",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
        "fill",
        "fill_",
        "zero_",
        "zero",
        "scalar_tensor",
        "arange",
        "linspace",
        "eye",
        "resize_",
        "set_",
        "detach",
        "detach_",
        "alias",
        "view",
        "_unsafe_view",
        "reshape",
        "_reshape_alias",
        "as_strided",
        "as_strided_",
        "expand",
        "expand_as",
        "permute",
        "transpose",
        "transpose_",
        "t",
        "t_",
        "squeeze",
        "squeeze_",
        "unsqueeze",
        "unsqueeze_",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "unfold",
        "diagonal",
        "movedim",
        "narrow",
        "view_as_real",
        "view_as_complex",
        "view_dtype",
        "copy_",
        "copy",
        "_to_copy",
        "to",
        "clone",
        "contiguous",
        "cat",
        "stack",
        "constant_pad_nd",
        "pad",
        "repeat",
        "lift",
        "lift_fresh",
        "lift_fresh_copy",
        "item",
        "is_pinned",
        "pin_memory",
        "record_stream",
        "equal",
        "is_same_size",
        "flip",
        "roll",
        "tril_indices",
        "triu_indices",
        "chunk",
        "hstack",
        "vstack",
        "_has_same_storage_numel",
        "slice_scatter",
        "select_scatter",
        "slice_backward",
        "select_backward",
        "resolve_conj",
        "resolve_neg",
        "is_nonzero",
    ]
)
#: Operators that draw random numbers.
_DRAWING = frozenset(
    ["rand", "randn", "randint", "rand_like", "randn_like", "uniform_", "normal_", "random_"]
)
#: Operators that make constants. Other tensors that operators allocate may be outputs of kernels.
_CONSTANT = frozenset(["arange", "linspace", "logspace", "scalar_tensor", "lift_fresh", "eye"])

#: Operators and functions by which elements leave torch; the last takes a single element.
LEAVING = frozenset(
    ["numpy", "tolist", "__array__", "__dlpack__", "apply_", "map_", "map2_", "_local_scalar_dense"]
)
#: Operators that return a Python number or bool that depends on elements.
_ASKING = frozenset(["_local_scalar_dense", "equal", "is_nonzero", "allclose"])
#: From this number of single elements on, they are recorded; sizes and scales are fewer.
_SINGLE = 8
#: Smaller tensors are not compared, because they can be equal by coincidence.
_TELLING = 8


class Seen:
    """The operators of a program and the tensors that they made.

    Attributes:
        counts: Numbers of elements by operator: the most of a float tensor that it computed or
            took out of torch, of one that it compared or tested, and of any tensor.
        made: Operators by the digest of a tensor that they computed.
        constants: Tensors by identity that depend on no argument and no kernel.
        recorder: Records the operators and the elements that are read on the host; None to leave
            that out.
    """

    def __init__(self, recorder: PlanRecorder | None = None) -> None:
        self.recorder = recorder
        self.counts: dict[str, tuple[int, int, int]] = {}
        self.made: dict[bytes, str] = {}
        self.constants: dict[int, torch.Tensor] = {}
        self._floats: dict[int, tuple[torch.Tensor, str]] = {}
        self._single = 0

    def note(self, name: str, floats: int = 0, asked: int = 0, every: int = 0) -> None:
        """Record the numbers of elements that an operator used."""
        counts = self.counts.get(name, (0, 0, 0))
        one, two, three = map(max, zip(counts, (floats, asked, every), strict=True))
        self.counts[name] = one, two, three

    def note_single(self, name: str) -> None:
        """Record that one more float left torch."""
        self._single += 1
        if self._single >= _SINGLE:
            self.note(name, floats=self._single, every=self._single)

    def keep(self, name: str, made: list[torch.Tensor], every: int) -> None:
        """Remember the tensors that an operator computed.

        Small tensors of integers are left out, because they can be equal by coincidence.

        Args:
            name: Name of the operator.
            made: Tensors that it computed.
            every: Number of elements of the largest operand or result.
        """
        for tensor in made:
            is_float = _is_float(tensor)
            if (every if is_float else tensor.numel()) >= _TELLING:
                self.made.setdefault(_digest(tensor), name)
                if is_float:
                    self._floats[id(tensor)] = tensor, name

    def convert(self, taken: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """Remember the converted copies of floats that an operator computed."""
        _, name = self._floats.get(id(taken[0]) if taken else 0, (None, ""))
        for tensor in made if name else ():
            self.made.setdefault(_digest(tensor), name)

    def origin(self, value: Any) -> str:
        """Return the operator that computed a result; empty if none did, or if it is trivial."""
        if not isinstance(value, torch.Tensor) or not value.numel():
            return ""
        plain = value.detach().reshape(-1)
        if plain.numel() < _TELLING and not _is_float(plain):
            return ""
        first = plain[0]
        if bool((plain == first).all()) and (plain.numel() > 1 or _is_round(first)):
            return ""
        return self.made.get(_digest(plain), "")


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Record the torch operators of this thread and of threads that the program starts."""

    def watched_run(run: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def run_watched(self: threading.Thread) -> None:
            with _modes(seen):
                run(self)

        return run_watched

    with Patches() as patches, _modes(seen):
        patches.wrap(threading.Thread, "run", watched_run)
        yield


@contextmanager
def _modes(seen: Seen) -> Iterator[None]:
    with _Operators(seen), _Leaving(seen):
        yield


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not import its compiler, which takes seconds."""
        return False

    def __init__(self, seen: Seen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if is_followed(name):
            with looking_inside(partial(_modes, self._seen)):
                return func(*args, **(kwargs or {}))
        recorder = self._seen.recorder
        call = None if recorder is None else recorder.operator(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        taken, made = _tensors((args, kwargs or {})), _tensors(result)
        if call is not None:
            call.returned(result)
        if recorder is not None and _depends_on_elements(name, func) and not _asked_by_us():
            recorder.read(taken)
        if self._is_constant(name, taken):
            self._seen.constants.update((id(tensor), tensor) for tensor in made)
        elif name in LEAVING:
            if any(map(_is_float, taken)) and not _asked_by_us():
                self._seen.note_single(name)
        elif name == "_to_copy":
            self._seen.convert(taken, made)
        elif name not in MOVING and name not in _DRAWING:
            self._note(name, taken, made)
        return result

    def _is_constant(self, name: str, taken: list[torch.Tensor]) -> bool:
        """Return whether an operator makes constants, or has only constants as operands."""
        constants = self._seen.constants
        if name in _CONSTANT or (taken and all(id(tensor) in constants for tensor in taken)):
            return True
        if name.endswith("_"):
            constants.pop(id(taken[0]) if taken else 0, None)
        return False

    def _note(self, name: str, taken: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        every = _most((*taken, *made))
        self._seen.keep(name, made, every)
        if any(map(_is_float, made)):
            self._seen.note(name, floats=every, every=every)
        else:
            self._seen.note(name, asked=_most(filter(_is_float, taken)), every=every)


class _Leaving(TorchFunctionMode):
    """Records functions that take elements out of torch."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in LEAVING and not _asked_by_us():
            every, floats = _tensors(args), filter(_is_float, _tensors(args))
            if self._seen.recorder is not None:
                self._seen.recorder.read(every)
            self._seen.note(name, floats=_most(floats), every=_most(every))
        return func(*args, **(kwargs or {}))


def _depends_on_elements(name: str, operator: Any) -> bool:
    """Return whether an operator shows its caller elements, or how many meet a condition."""
    return name in _ASKING or torch.Tag.dynamic_output_shape in operator.tags


#: Modules of ttools that call the program's functions.
_CALLERS = frozenset(
    str(Path(__file__).parents[1] / f"{name}.py")
    for name in (
        *("workers/candidate", "workers/results", "workers/operators"),
        *("workers/custom_operators", "oracle/evaluation"),
    )
)


def _asked_by_us() -> bool:
    """Return whether the engine or a check reads the elements, and not the program."""
    frame = sys._getframe(2)
    while frame is not None and owner_of_frame(frame) != "ttools":
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_filename not in _CALLERS


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _is_round(value: torch.Tensor) -> bool:
    """Return whether a number is integral or not finite, as results often are by coincidence."""
    number = complex(value.item())
    return number.imag == 0 and (not math.isfinite(number.real) or number.real.is_integer())


def _most(tensors: Any) -> int:
    return max((tensor.numel() for tensor in tensors), default=0)


def _digest(tensor: torch.Tensor) -> bytes:
    head = f"{tensor.dtype}{tensor.numel()}".encode()
    return hashlib.sha256(head + raw_bytes(tensor)).digest()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
