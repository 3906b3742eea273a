"""What torch's operators do with tensors of a mapped device: what they do on the CPU.

torch asks the dispatcher for a kernel of the CUDA backend, after autograd, autocast, tracing and
functional transformations. Here that kernel computes on CPU tensors of the same memory. Operators
that return another view of their operand only look at sizes, so that torch's own kernel serves,
which leaves storages shared. Must not know how scripts are run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ttools.core.device_map import memory
from ttools.core.device_map.memory import to_cuda, to_host
from ttools.core.errors import UnsupportedError

_CPU = torch.device("cpu")
_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
#: Kernels of these may read tensors of both devices.
_MIXING = frozenset({"copy_", "_copy_from", "_copy_from_and_resize", "index", "_unsafe_index"}) | {
    *("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"),
    *("_foreach_copy_", "_foreach_copy"),
}

Kernel = Callable[..., Any]


class _Call:
    """One call of an operator: its operands on the CPU, and which tensors they stand for."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self._mixes = op._schema.name.removeprefix("aten::") in _MIXING
        #: CUDA tensors by the identity of their CPU tensors, which are held, too.
        self._tensors: dict[int, tuple[Any, Any]] = {}

    @property
    def has_tensors(self) -> bool:
        """Whether any operand is a tensor of the device."""
        return bool(self._tensors)

    def operand(self, value: Any) -> Any:
        """An operand as the CPU's kernel takes it."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.device):
            return _CPU if value.type == "cuda" else value
        if isinstance(value, (list, tuple)):
            return type(value)([self.operand(each) for each in value])
        return value

    def output(self, value: Any) -> Any:
        """A tensor for the result, an `out=` argument: kernels give empty ones another size."""
        if not (isinstance(value, torch.Tensor) and value.is_cuda and not value.numel()):
            return self.operand(value)
        host = torch.empty(0, dtype=value.dtype)
        self._tensors[id(host)] = host, value
        return host

    def _tensor(self, value: Any) -> Any:
        if value.is_cuda:
            host = to_host(value)
            self._tensors[id(host)] = host, value
            return host
        if not self._mixes and value.dim() and value.device == _CPU:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! (in {self._op})"
            )
        return value

    def result(self, value: Any) -> Any:
        """A result as the script gets it: what was an operand is that operand."""
        if isinstance(value, torch.Tensor):
            known = self._tensors.get(id(value))
            return known[1] if known else _placed(value)
        if isinstance(value, (list, tuple)):
            return type(value)([self.result(each) for each in value])
        return value

    def resize(self) -> None:
        """Gives the CUDA tensors the shapes that the kernel gave to their CPU tensors."""
        for host, tensor in self._tensors.values():
            if host.shape != tensor.shape or host.stride() != tensor.stride():
                reshaped = to_cuda(host)
                storage = reshaped.untyped_storage()
                if host.data_ptr() == tensor.data_ptr():
                    storage = tensor.untyped_storage()
                    offset = tensor.storage_offset()
                else:
                    offset = 0
                _set(tensor, storage, offset, list(host.shape), list(host.stride()))


def _placed(tensor: Any) -> Any:
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"tensors of layout {tensor.layout} on a mapped device")
    return to_cuda(tensor)


def computed_on_cpu(op: Any, function: Kernel | None = None) -> Kernel:
    """The kernel of an operator that computes with CPU tensors.

    Args:
        op: the operator, which has a schema.
        function: what computes; the operator itself by default.
    """
    compute = op if function is None else function
    arguments = op._schema.arguments
    outputs = {argument.name for argument in arguments if argument.is_out}
    writes = any(argument.is_write for argument in arguments)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        call = _Call(op)
        operands = [call.operand(value) for value in args]
        named = {
            name: call.output(value) if name in outputs else call.operand(value)
            for name, value in kwargs.items()
        }
        if "pin_memory" in named:
            named["pin_memory"] = None
        if not call.has_tensors and not memory.is_mapped():
            raise RuntimeError("there is no CUDA device: the device map has ended")
        result = compute(*operands, **named)
        if writes:
            call.resize()
        return call.result(result)

    return kernel


# ---- operators that only look at sizes


def _torch_s_own(name: str) -> Kernel:
    """The CPU's kernel, given the CUDA tensors themselves."""
    call = torch.library.get_kernel(name, "CPU").call_boxed
    return functools.partial(call, _ON_CPU)


_set = _torch_s_own("aten::set_.source_Storage_storage_offset")


def _resize(tensor: Any, size: list[int], memory_format: Any = None) -> Any:
    """`resize_`: memory is the CPU's to allocate, which a CUDA storage does not know."""
    strides = torch.empty(size, device="meta", memory_format=memory_format).stride()
    needed = 1 + sum((extent - 1) * step for extent, step in zip(size, strides, strict=True))
    needed = (tensor.storage_offset() + (needed if 0 not in size else 0)) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        larger = torch.empty(needed, dtype=torch.uint8)
        before = to_host(tensor.new_empty(0, dtype=torch.uint8).set_(storage))
        larger[: len(before)] = before
        storage = to_cuda(larger).untyped_storage()
    return _set(tensor, storage, tensor.storage_offset(), list(size), list(strides))


# ---- operators that the CPU does not have, or has for itself only


def _wide(op: Any) -> Kernel:
    """Computes in f32 what the CPU computes in half precision where CUDA accumulates in f32."""
    half = (torch.float16, torch.bfloat16)

    def widened(*args: Any, **kwargs: Any) -> Any:
        narrow = next(x.dtype for x in args if isinstance(x, torch.Tensor))
        if narrow not in half:
            return op(*args, **kwargs)
        wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype in half else x for x in args]
        results = op(*wide, **kwargs)
        # Statistics, which are one for each row, stay wide as CUDA's.
        whole = len(results) if "backward" in op._schema.name else 1
        return tuple(
            x.to(narrow) if x is not None and number < whole else x
            for number, x in enumerate(results)
        )

    return widened


def _product(op: Any) -> Kernel:
    """A product of another type than its operands'."""

    def product(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        dtype = args[len(tensors)]
        result = op(*(x.to(dtype) for x in tensors), **kwargs)
        return result if out is None else out.copy_(result)

    return product


def _lstm_cell(
    gates: Any, hidden_gates: Any, cell: Any, bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any, Any]:
    """One step; what the backward pass needs are the gates after their functions."""
    every = gates + hidden_gates
    if bias is not None:
        every = every + bias + hidden_bias
    i, f, g, o = every.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * cell + i * g
    return o * after.tanh(), after, torch.cat((i, f, g, o), 1)


def _lstm_cell_backward(
    hidden_grad: Any, cell_grad: Any, cell: Any, after: Any, gates: Any, has_bias: bool
) -> tuple[Any, Any, Any]:
    i, f, g, o = gates.chunk(4, 1)
    curve = after.tanh()
    hidden_grad = torch.zeros_like(after) if hidden_grad is None else hidden_grad
    total = hidden_grad * o * (1 - curve * curve)
    if cell_grad is not None:
        total = total + cell_grad
    grads = torch.cat(
        (
            total * g * i * (1 - i),
            total * cell * f * (1 - f),
            total * i * (1 - g * g),
            hidden_grad * curve * o * (1 - o),
        ),
        1,
    )
    return grads, total * f, grads.sum(0) if has_bias else None


def _instead() -> dict[str, Kernel]:
    """What is computed on CPU tensors instead of an operator, by its name."""
    aten = torch.ops.aten
    found: dict[str, Kernel] = {
        "_thnn_fused_lstm_cell": _lstm_cell,
        "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
        # torch's own composition of attention, not that of another library.
        "_fused_sdp_choice": lambda *args, **kwargs: 0,
        "_use_cudnn_ctc_loss": lambda *args: False,
        "_use_cudnn_ctc_loss.Tensor": lambda *args: False,
        "record_stream": lambda *args: None,
    }
    for name in ("native_layer_norm", "native_group_norm"):
        for whole in (name, f"{name}_backward"):
            found[whole] = _wide(getattr(aten, whole).default)
    for name in ("mm", "bmm", "addmm", "baddbmm"):
        for overload in ("dtype", "dtype_out"):
            if hasattr(getattr(aten, name), overload):
                found[f"{name}.{overload}"] = _product(getattr(aten, name).default)
    return found


def kernels() -> Iterator[tuple[str, Kernel]]:
    """The kernel of every operator that needs one of its own, by its name with the overload.

    Operators that are made of others in C++ need none, nor do those that return views.
    """
    yield "resize_", _resize
    instead = _instead()
    for short, function in instead.items():
        op = _operator(f"aten::{short}")
        if op is not None:
            yield short, computed_on_cpu(op, function)
    registrations = torch._C._dispatch_get_registrations_for_dispatch_key
    on_cpu = {name for name in registrations("CPU") if name.startswith("aten::")}
    composite = {
        name for name in registrations("CompositeExplicitAutograd") if name.startswith("aten::")
    }
    for name in sorted(on_cpu | composite):
        op = _operator(name)
        if op is None:
            continue
        short = name.removeprefix("aten::")
        views = any(r.alias_info and not r.alias_info.is_write for r in op._schema.returns)
        sets = short.startswith("set_")
        if short == "resize_" or short in instead:
            continue
        if views or sets:
            if name in on_cpu:
                yield short, _torch_s_own(name)
        elif name in on_cpu or not _converts(op):
            yield short, computed_on_cpu(op)


def _converts(op: Any) -> bool:
    """Whether it takes a tensor and a device, which need not be the tensor's."""
    types = {str(argument.type) for argument in op._schema.arguments}
    return "Optional[Device]" in types and "Tensor" in types


def _operator(name: str) -> Any:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:  # an operator that only TorchScript has
        return None
