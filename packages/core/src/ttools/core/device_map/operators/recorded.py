"""Records operators during the capture of a CUDA graph, without computing them.

On a GPU, nothing is computed during a capture. Here, torch's meta kernels determine the sizes of
results without computing values. The memory of the results is allocated once. Each replay computes
with the current contents of the operands and writes to that memory. Operations that would read
values on the host are rejected with CUDA's error. `computed_on_cpu` returns the kernel of an
operator, which records the operator during a capture and otherwise computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ttools.core.device_map.aliases import own_kernel, to_cuda, to_host
from ttools.core.device_map.graphs.capture import Capture, capturing
from ttools.core.device_map.operators.kernels import (
    ON_EITHER,
    Computation,
    Kernel,
    aliased,
    operator,
    refusal,
)
from ttools.core.device_map.operators.sizes import resize
from ttools.core.errors import UnsupportedError

#: Operators that only allocate memory; they are executed once, during the capture.
_ALLOCATING = ("empty", "new_empty", "_empty_affine", "_empty_per_channel")
#: Operators that copy between host and device, possibly after they have returned (`non_blocking`).
_COPYING = ("copy_", "_copy_from", "_copy_from_and_resize", "_foreach_copy_", "_foreach_copy")
_NON_BLOCKING = 2
#: Operators that read a number from the device but lack torch's tag for such operators.
_WAITING = frozenset(("_linalg_check_errors", "histc", "_ctc_loss", "_pack_padded_sequence"))
#: Operators whose results other than the first may be empty on the CPU if they are unused.
_SPARE = (
    *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
    *("_batch_norm_no_update", "_batch_norm_with_update", "_embedding_bag_forward_only"),
)
#: Namespaces of operators on process groups.
_COMMUNICATING = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
_BOOLS = (torch.bool, torch.uint8)
_conjugated, _negated = own_kernel("aten::_conj"), own_kernel("aten::_neg_view")


def computed_on_cpu(name: str, *, key: str = "CPU", function: Kernel | None = None) -> Kernel:
    """Return the kernel of an operator that computes with CPU tensors.

    Args:
        name: Operator name with namespace and overload.
        key: The backend whose kernel computes, if it has one: `CPU`, `SparseCPU`, `SparseCsrCPU`.
        function: Function that replaces that kernel, if given.
    """
    computation: Computation | None = None
    recorded: Recorded | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal computation, recorded
        if computation is None:
            computation = Computation(name, key, function)
        capture = capturing()
        try:
            # The dispatcher has already handled tensor subclasses and modes of the script.
            with torch._C.DisableTorchFunction():
                if capture is None:
                    return computation(args, kwargs)
                if recorded is None:
                    recorded = Recorded(name, computation, function)
                return recorded.record(capture, args, kwargs)
        except RuntimeError as error:
            if "DefaultCPUAllocator" not in str(error):
                raise
            # Scripts that retry with a smaller batch look for this exception type and this wording.
            raise torch.OutOfMemoryError(f"CUDA out of memory. {error}") from error

    return kernel


class Recorded:
    """Records an operator in a graph; the steps are planned from the operator's schema.

    Args:
        name: Operator name with namespace and overload.
        compute: Function that computes the operator on tensors of the device.
        function: Function that replaces the CPU's kernel, if given.
    """

    def __init__(self, name: str, compute: Kernel, function: Kernel | None) -> None:
        op = operator(name)
        schema = op._schema
        self._name, self._compute = name, compute
        self._shapes = function or op
        namespace, _, self._short = schema.name.partition("::")
        self._communicates = namespace in _COMMUNICATING
        kinds = [str(item.type) for item in schema.returns]
        # Results without tensors, such as the choice of a kernel, are computed on the host.
        self._answers = bool(kinds) and not any("Tensor" in kind for kind in kinds)
        self._allocates = namespace == "aten" and self._short.startswith(_ALLOCATING)
        tags = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
        self._waits = bool(tags & set(op.tags)) or self._short in _WAITING
        if self._short in ("index", "repeat_interleave"):
            self._waits = False  # whether these operators wait depends on the operands
        self._free: set[int] = ON_EITHER.get(self._short, set())
        self._outputs = [item.name for item in schema.arguments if item.is_out]
        sets = {
            aliased(item): item.name if item.kwarg_only else number
            for number, item in enumerate(schema.arguments)
            if item.is_write
        }
        self._returned = [sets.get(aliased(item)) for item in schema.returns]
        self._is_precise = namespace == "aten"

    def record(self, capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add the operator to a graph.

        Returns:
            The results, whose memory is written at each replay.

        Raises:
            RuntimeError: The operator is not permitted during a capture.
            UnsupportedError: The operator cannot be recorded.
        """
        capture.check()
        if self._communicates:
            raise self._unsupported("communication between processes cannot be recorded")
        if self._waits or self._reads_on_host(args, kwargs):
            raise capture.refuse()
        if self._answers or self._allocates:
            return self._compute(args, kwargs)
        metas = _Metas(self._name)
        on_meta = metas.of(args), {k: metas.of(v) for k, v in kwargs.items()}
        for name in self._outputs:
            on_meta[1][name] = _without_size(kwargs[name])
        if on_meta[1].get("pin_memory"):
            on_meta[1]["pin_memory"] = None
        try:
            result = self._shapes(*on_meta[0], **on_meta[1])
        except NotImplementedError as error:
            raise self._unsupported(
                "torch cannot determine the sizes of its results without computing them"
            ) from error
        for name in self._outputs:
            _for_each_pair(_give_size, kwargs[name], on_meta[1][name])
        kept = _mapped(args, self._kept(capture)), _mapped(kwargs, self._kept(capture))
        returned, places = self._placed(capture, result, args, kwargs, metas)

        def run() -> None:
            with (
                torch._C._DisableTorchDispatch(),
                torch._C.DisableTorchFunction(),
                torch.inference_mode(),
            ):
                self._fill(places, self._compute(*kept))

        capture.add(self._name, run)
        return returned

    def _unsupported(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self._name} in a CUDA graph on a mapped device: {why}",
            help="move it out of the captured code",
        )

    # ---- operands

    def _reads_on_host(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a GPU would wait for values or for a copy from or to host memory."""
        if self._short == "repeat_interleave":
            return kwargs.get("output_size") is None
        copies = self._short in _COPYING
        for number, value in enumerate(args):
            if not any(tensor.is_cpu and tensor.dim() for tensor in _tensors(value)):
                continue
            if number not in self._free:
                raise refusal(self._name)
            if not copies:
                return True
        if copies:
            non_blocking = (
                args[_NON_BLOCKING] if len(args) > _NON_BLOCKING else kwargs.get("non_blocking")
            )
            return not non_blocking and any(tensor.is_cpu for tensor in _tensors((args, kwargs)))
        if "index" in self._short and len(args) > 1 and isinstance(args[1], (list, tuple)):
            masks = any(tensor.dtype in _BOOLS for tensor in _tensors(args[1]))
            return masks and not self._fills(args, kwargs)
        return False

    def _fills(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether all indexed elements are set to one number, so a GPU need not count."""
        value = args[2] if len(args) > 2 else kwargs.get("values")
        accumulates = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
        is_number = isinstance(value, torch.Tensor) and value.is_cpu and value.numel() == 1
        return is_number and not accumulates

    def _kept(self, capture: Capture) -> Callable[[Any], Any]:
        def kept(tensor: Any) -> Any:
            # On a GPU, a number on the host is passed by value as an argument of the kernel.
            is_number = tensor.is_cpu and self._short not in _COPYING
            return tensor.clone() if is_number else capture.keep(tensor)

        return kept

    # ---- results

    def _placed(
        self, capture: Capture, result: Any, args: Any, kwargs: Any, metas: _Metas
    ) -> tuple[Any, Any]:
        """Return the results for the script, and the memory to write at each replay."""
        if not any(where is not None for where in self._returned):
            return self._place(capture, result, metas)
        results = result if len(self._returned) > 1 else (result,)
        both = [
            self._place(capture, value, metas)
            if where is None
            else (args[where] if isinstance(where, int) else kwargs[where], None)
            for where, value in zip(self._returned, results, strict=True)
        ]
        if len(both) == 1:
            return both[0]
        return tuple(result_or_memory for result_or_memory, _ in both), [
            result_or_memory for _, result_or_memory in both
        ]

    def _place(self, capture: Capture, value: Any, metas: _Metas) -> tuple[Any, Any]:
        if isinstance(value, torch.Tensor):
            if not self._is_precise and id(value) in metas.operands:
                return metas.operands[id(value)], None
            host = _memory_for(value)
            made = to_cuda(host)
            if capture.inputs is not None:
                capture.inputs.made(made)
            return made, host
        if isinstance(value, (list, tuple)):
            both = [self._place(capture, item, metas) for item in value]
            return type(value)([item for item, _ in both]), [item for _, item in both]
        return value, None

    def _fill(self, places: Any, value: Any, is_spare: bool = False) -> None:
        """Copy computed results to the memory of the recorded results."""
        if isinstance(places, torch.Tensor):
            if isinstance(value, torch.Tensor) and value.shape == places.shape:
                places.copy_(to_host(value))
            elif not is_spare:
                raise self._unsupported(
                    "the sizes of its results differ when the graph is replayed"
                )
        elif places is not None:
            for number, (place, result) in enumerate(zip(places, value, strict=True)):
                self._fill(place, result, number > 0 and self._short in _SPARE)


class _Metas:
    """Meta tensors with the sizes of operands.

    Attributes:
        operands: The operand of each meta tensor, by `id`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: list[Any] = []
        self.operands: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """Convert tensors, devices and generators in a value to the meta device."""
        if isinstance(value, torch._C.Generator):
            return None
        if isinstance(value, torch.device):
            return torch.device("meta") if value.type == "cuda" else value
        return _mapped(value, self._of_tensor, other=self.of)

    def _of_tensor(self, tensor: Any) -> Any:
        if tensor.is_nested or tensor.layout is not torch.strided:
            kind = "nested" if tensor.is_nested else str(tensor.layout)
            raise UnsupportedError(
                f"{self._name} of a tensor of layout {kind} in a CUDA graph on a mapped device"
            )
        meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        meta = _conjugated(meta) if tensor.is_conj() else meta
        meta = _negated(meta) if tensor.is_neg() else meta
        self._made.append(meta)  # keeps its `id` unique
        self.operands[id(meta)] = tensor
        return meta


def _mapped(
    value: Any, of_tensor: Callable[[Any], Any], other: Callable[[Any], Any] | None = None
) -> Any:
    """Return a copy of a nested value in which `of_tensor` has replaced the tensors."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if (isinstance(value, tuple) and type(value) is tuple) or isinstance(value, list):
        return type(value)(
            _mapped(item, of_tensor) if other is None else other(item) for item in value
        )
    if isinstance(value, dict):
        return {name: _mapped(item, of_tensor) for name, item in value.items()}
    return value


def _tensors(value: Any) -> list[Any]:
    tensors: list[Any] = []
    _mapped(value, tensors.append)
    return tensors


def _for_each_pair(action: Callable[[Any, Any], object], value: Any, other: Any) -> None:
    if isinstance(value, torch.Tensor):
        action(value, other)
    else:
        for one, another in zip(value, other, strict=True):
            _for_each_pair(action, one, another)


def _without_size(value: Any) -> Any:
    """Return an empty meta tensor for an `out=` argument, whose size the operator determines."""
    return _mapped(value, lambda tensor: torch.empty(0, dtype=tensor.dtype, device="meta"))


def _give_size(tensor: Any, meta: Any) -> None:
    if tensor.shape != meta.shape:
        resize(tensor, list(meta.shape))


def _memory_for(meta: Any) -> Any:
    """Return an uninitialised CPU tensor in which no elements overlap."""
    if meta.layout is not torch.strided:
        raise UnsupportedError(f"a result of layout {meta.layout} in a CUDA graph")
    strides = meta.stride()
    if 0 in strides:
        return torch.empty(meta.shape, dtype=meta.dtype, device="cpu")
    return torch.empty_strided(meta.shape, strides, dtype=meta.dtype, device="cpu")
