"""Operators that torch's CPU backend lacks or computes differently from its CUDA backend.

A script compares its kernel with torch's result on the same device. If torch's CPU kernel
accumulates in half precision where its CUDA kernel uses float32, a correct kernel would seem wrong.
All functions take and return CPU tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ttools.core.device_map.operators import batch_norm

_HALF = (torch.float16, torch.bfloat16)


def replacements() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield pairs of an operator's name in aten, with its overload, and its replacement."""
    aten = torch.ops.aten
    yield from batch_norm.replacements()
    yield "_thnn_fused_lstm_cell", _lstm_cell
    yield "_thnn_fused_lstm_cell_backward_impl", _lstm_cell_backward
    yield "_thnn_fused_gru_cell", _gru_cell
    yield "_thnn_fused_gru_cell_backward", _gru_cell_backward
    yield "_fused_rms_norm_backward", _rms_norm_backward
    # Select the backend that composes attention from torch's operators, instead of a fused kernel.
    yield "_fused_sdp_choice", lambda *args, **kwargs: 0
    for library in ("cudnn", "miopen"):
        yield f"_use_{library}_ctc_loss", lambda *args: False
        yield f"_use_{library}_ctc_loss.Tensor", lambda *args: False
    yield "record_stream", lambda *args: None
    yield "_sparse_mm_reduce_impl", _not_on_gpus("_sparse_mm_reduce_impl")
    # Forward-mode differentiation uses this operator to create tensors of zeros that have no
    # memory.
    yield "_efficientzerotensor", torch.zeros
    for name in ("_softmax", "_log_softmax"):
        yield name, _to_float(getattr(aten, name).default)
        backward = f"{name}_backward_data"
        yield backward, _from_float(getattr(aten, backward).default)
    # layer_norm on float16[1151, 8192]: the gradient of the bias, a sum over rows, has an error of
    # 0.08 on the CPU (torch 2.13) and of 0.004 with float32 sums.
    for name in ("native_layer_norm", "native_group_norm"):
        for whole in (name, f"{name}_backward"):
            yield whole, _wide(getattr(aten, whole).default, "backward" in whole)
    yield "_int_mm.out", _int_product
    for name in ("mm", "bmm", "addmm", "baddbmm"):
        for overload in ("dtype", "dtype_out"):
            if hasattr(getattr(aten, name), overload):
                yield f"{name}.{overload}", _product(getattr(aten, name).default)


def _int_product(one: Any, other: Any, *, out: Any) -> Any:
    """Multiply integer matrices and resize the output, as CUDA does."""
    return out.resize_(one.shape[0], other.shape[1]).copy_(torch._int_mm(one, other))


def _not_on_gpus(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch has no kernel for CUDA of aten::{name}")

    return refuse


def _wide(op: Any, backward: bool) -> Callable[..., Any]:
    """Compute in float32 where CUDA accumulates in float32 but the CPU in half precision."""

    def widened(*args: Any, **kwargs: Any) -> Any:
        narrow = next(x.dtype for x in args if isinstance(x, torch.Tensor))
        if narrow not in _HALF:
            return op(*args, **kwargs)
        wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype in _HALF else x for x in args]
        results = op(*wide, **kwargs)
        # Statistics per row stay in float32, as in CUDA.
        whole = len(results) if backward else 1
        return tuple(
            x.to(narrow) if x is not None and number < whole else x
            for number, x in enumerate(results)
        )

    return widened


def _product(op: Any) -> Callable[..., Any]:
    """Return a matrix product whose result has a different type from its operands."""

    def product(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        dtype = args[len(tensors)]
        result = op(*(x.to(dtype) for x in tensors), **kwargs)
        return result if out is None else out.resize_(result.shape).copy_(result)

    return product


def _to_float(op: Any) -> Callable[..., Any]:
    """Extend an operator by CUDA's option to convert half precision to float32."""

    def function(x: Any, axis: int, half_to_float: bool) -> Any:
        return op(x.float() if half_to_float else x, axis, False)

    return function


def _from_float(op: Any) -> Callable[..., Any]:
    def backward(grad: Any, output: Any, axis: int, dtype: Any) -> Any:
        return op(grad, output, axis, grad.dtype).to(dtype)

    return backward


def _rms_norm_backward(
    grad: Any, x: Any, shape: Any, inverse: Any, weight: Any, output_mask: Any
) -> tuple[Any, Any]:
    """Return the gradients of input and weight; `inverse` is 1 / root mean square of each row."""
    axes = list(range(-len(shape), 0))
    normed, grad = x.float() * inverse, grad.float()
    scaled = grad if weight is None else grad * weight.float()
    to_x = inverse * (scaled - normed * (scaled * normed).mean(axes, keepdim=True))
    to_weight = None
    if weight is not None and output_mask[1]:
        to_weight = (grad * normed).reshape(-1, *shape).sum(0).to(weight.dtype)
    return to_x.to(x.dtype) if output_mask[0] else None, to_weight


def _lstm_cell(
    gates: Any, hidden_gates: Any, cell: Any, bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any, Any]:
    """Compute one step of an LSTM; the last result is the activated gates for the backward pass."""
    total = gates + hidden_gates
    if bias is not None:
        total = total + bias + hidden_bias
    i, f, g, o = total.chunk(4, 1)
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


def _gru_cell(
    gates: Any, hidden_gates: Any, hidden: Any, bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any]:
    """Compute one step of a GRU; the last result is the workspace for the backward pass."""
    if bias is not None:
        gates, hidden_gates = gates + bias, hidden_gates + hidden_bias
    r, z, n = gates.chunk(3, 1)
    hidden_r, hidden_z, hidden_n = hidden_gates.chunk(3, 1)
    r, z = (r + hidden_r).sigmoid(), (z + hidden_z).sigmoid()
    n = (n + r * hidden_n).tanh()
    return n + z * (hidden - n), torch.cat((r, z, n, hidden, hidden_n), 1)


def _gru_cell_backward(grad: Any, workspace: Any, has_bias: bool) -> tuple[Any, ...]:
    r, z, n, hidden, hidden_n = workspace.chunk(5, 1)
    to_z = grad * (hidden - n) * z * (1 - z)
    to_n = grad * (1 - z) * (1 - n * n)
    to_r = to_n * hidden_n * r * (1 - r)
    grads = torch.cat((to_r, to_z, to_n), 1)
    hidden_grads = torch.cat((to_r, to_z, to_n * r), 1)
    sums = (grads.sum(0), hidden_grads.sum(0)) if has_bias else (None, None)
    return grads, hidden_grads, grad * z, *sums
