"""Computes operators on tensors of a mapped device with the CPU's kernels.

torch's dispatcher calls the kernel of the CUDA backend after it has handled autograd, autocast,
tracing and functional transformations. The kernel that ttools registers for that backend calls the
CPU's kernel with CPU tensors that share the operands' memory. For types that CUDA's kernel supports
but the CPU's kernel does not, it computes in wider types. The table of these types comes from
torch's own lists (the types in `OpInfo.dtypesIfCUDA` that are not in `dtypes`), so that types which
neither kernel supports are still rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ttools.core import kernel_overrides
from ttools.core.device_map.aliases import dispatch_keys, own_kernel, to_cuda, to_host
from ttools.core.device_map.generators import default_generator, drawing
from ttools.core.device_map.memory import ask_for_device
from ttools.core.device_map.operators.sizes import resize, set_storage
from ttools.core.errors import StandInError, UnsupportedError

_HALF = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_COMPLEX = {torch.complex32: torch.complex64}
_FFT = {torch.float16: torch.float32, **_COMPLEX}
_BOOL = {torch.bool: torch.uint8}
#: Wider types by operator name; a name also stands for in-place variants and those with `out=`.
_WIDER = {
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), _FFT),
    **dict.fromkeys(("avg_pool3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), _HALF),
    **dict.fromkeys(("multi_margin_loss", "multilabel_margin_loss", "rrelu_with_noise"), _HALF),
    **dict.fromkeys(("acos", "acosh", "angle", "asin", "asinh", "atan", "atanh"), _COMPLEX),
    **dict.fromkeys(("cos", "cosh", "div", "exp", "lerp", "log", "logaddexp", "pow"), _COMPLEX),
    **dict.fromkeys(("prod", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "sum"), _COMPLEX),
    **dict.fromkeys(("tan", "tanh"), _COMPLEX),
    "abs": _BOOL,
    "trace": {**_BOOL, **_COMPLEX},
}
_REFUSAL = re.compile("not implemented for|doesn't support tensors of type|on CPU does not support")


def with_missing_types(name: str, op: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a CPU computation to the types that only CUDA's kernel supports.

    Args:
        name: Operator name with namespace and overload.
        compute: The computation, which rejects these types.
    """
    packet, _, overload = name.removeprefix("aten::").partition(".")
    short = packet.removesuffix("_backward").removesuffix("_forward").rstrip("_")
    if packet in _OWN:
        wider: Callable[..., Any] = _with_output(_OWN[packet]) if overload else _OWN[packet]
    elif name.startswith("aten::") and short in _WIDER:
        wider = _Wider(op, _WIDER[short])
    else:
        return compute

    def computed(*args: Any, **kwargs: Any) -> Any:
        try:
            return compute(*args, **kwargs)
        except RuntimeError as error:
            if not _REFUSAL.search(str(error)):
                raise
            try:
                return wider(*args, **kwargs)
            except _OtherTypeError:
                raise error from None

    return computed


class _OtherTypeError(Exception):
    """The operands have a type that CUDA does not support either."""


class _Wider:
    """An operator that computes in a wider type and rounds once."""

    def __init__(self, op: Any, types: dict[torch.dtype, torch.dtype]) -> None:
        self._op = op
        self._types = types
        arguments = op._schema.arguments
        self._written = [
            (number, argument.name)
            for number, argument in enumerate(arguments)
            if argument.alias_info and argument.alias_info.is_write
        ]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        narrow = next((x.dtype for x in tensors if x.dtype in self._types), None)
        if narrow is None:
            raise _OtherTypeError
        asked = kwargs.get("dtype")
        if asked in self._types:
            kwargs["dtype"] = asked = None
        wide_args = [self._widened(x) for x in args]
        wide_kwargs = {name: self._widened(x) for name, x in kwargs.items()}
        results = self._op(*wide_args, **wide_kwargs)
        for number, name in self._written:
            written, computed = (
                (kwargs[name], wide_kwargs[name])
                if name in kwargs
                else (args[number], wide_args[number])
            )
            if written is not computed:
                written.resize_(computed.shape).copy_(computed)
        if asked is not None:
            return results
        if isinstance(results, tuple):
            return tuple(_narrowed(x, narrow) for x in results)
        return _narrowed(results, narrow)

    def _widened(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype in self._types:
            return x.to(self._types[x.dtype])
        return x


def _narrowed(x: Any, narrow: torch.dtype) -> Any:
    """Convert a result to the operands' type, or to the real or complex type of that precision."""
    if narrow is torch.bool:
        types = {torch.uint8: torch.bool}
    elif narrow is torch.bfloat16:
        types = {torch.float32: torch.bfloat16}
    else:
        types = {torch.float32: torch.float16, torch.complex64: torch.complex32}
    return x.to(types[x.dtype]) if x.dtype in types else x


def _histogram(x: Any, bins: int = 100, least: Any = 0, greatest: Any = 0) -> Any:
    """Compute `histc` of integers with CUDA's own division (`getBin` in ATen's SummaryOps.cu)."""
    if x.dtype.is_floating_point or x.dtype.is_complex or x.dtype is torch.bool:
        raise _OtherTypeError
    values = x.flatten().long()
    least, greatest = int(least), int(greatest)
    if least == greatest and values.numel():
        least, greatest = int(values.min()), int(values.max())
    if least == greatest:
        least, greatest = least - 1, greatest + 1
    values = values[(values >= least) & (values <= greatest)]
    places = ((values - least) * bins // (greatest - least)).clamp(max=bins - 1)
    return torch.bincount(places, minlength=bins).to(x.dtype)


def _complex_sum(x: Any, axes: Any = None, keep: bool = False, *, dtype: Any = None) -> Any:
    """Compute `nansum` of complex numbers."""
    wide = x.to(torch.complex64) if x.dtype is torch.complex32 else x
    return torch.where(wide.isnan(), 0, wide).sum(axes, keep).to(dtype or x.dtype)


def _with_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the variant of a function that accepts `out=`."""

    def computed(*args: Any, out: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return out.resize_(result.shape).copy_(result)

    return computed


#: Functions that replace operators for which computing in a wider type is not sufficient.
_OWN: dict[str, Callable[..., Any]] = {"histc": _histogram, "nansum": _complex_sum}


_CPU = torch.device("cpu")
#: Types of operands that need no conversion, even if they are optional or in a list.
_PLAIN = frozenset(("int", "float", "bool", "number", "str", "Generator"))
_WRAPPERS = re.compile(r"Optional|List|[\[\]]")
#: Operators that query whether cuDNN or MIOpen can compute this loss.
_CTC_CHOICES = ("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss")
#: Indices of operands that may be CPU tensors although other operands are device tensors, by
#: operator.
ON_EITHER = {
    **{name: {0, 1} for name in ("copy_", "_copy_from", "_copy_from_and_resize")},
    **{name: {0, 1} for name in ("_foreach_copy_", "_foreach_copy", "set_", "is_set_to")},
    **{name: {1} for name in ("index", "_unsafe_index", "index_put", "index_put_")},
    **{name: {1} for name in ("_index_put_impl_", "_unsafe_index_put", "_pack_padded_sequence")},
    **{name: {1, 2, 3} for name in ("_ctc_loss", *_CTC_CHOICES)},
    "_ctc_loss_backward": {2, 3, 4},
    "_nested_from_padded": {1},
}
#: Indices of results that are on the CPU, by operator name.
_ON_CPU = {"_pack_padded_sequence": {1}}

Kernel = Callable[..., Any]
#: Pairs of a CPU tensor and the device tensor that it represents in one call.
Hosts = list[tuple[Any, Any]]
Convert = Callable[[Any, Hosts], Any]


def operator(name: str) -> Any:
    """Return the operator with a qualified name; None if only TorchScript has it."""
    namespace, _, short = name.partition("::")
    packet, _, overload = short.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except AttributeError:
        return None


def _drawing(compute: Kernel) -> Kernel:
    def computed(*args: Any, **kwargs: Any) -> Any:
        with drawing():
            return compute(*args, **kwargs)

    return computed


def _takes_tensors(schema: Any) -> bool:
    return any("Tensor" in str(argument.type) for argument in schema.arguments)


class Computation:
    """Computes an operator with CPU tensors; the conversions are planned from its schema."""

    def __init__(self, name: str, key: str, function: Kernel | None) -> None:
        schema = operator(name)._schema
        self._name = name
        draws = torch.Tag.nondeterministic_seeded in operator(name).tags
        self._takes_generator = any(
            argument.kwarg_only and "Generator" in str(argument.type)
            for argument in schema.arguments
        )
        self._compute = self._compute_with_numbers = function or _composed(name)
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        # Collectives are not called directly. The sanitizer may replace kernels that allocate
        # memory with Python code, which needs the GIL, while threads of Gloo may wait for the GIL
        # and hold the lock of their queue.
        is_collective = name.startswith("c10d::")
        #: Dispatch key of the kernel that is called directly, or None; and the value of
        #: `kernel_overrides.changes` when the kernel was looked up.
        self._key: str | None = None
        self._change = -1
        if function is None and has_kernel and _takes_tensors(schema) and not is_collective:
            self._key = key
            self._take_kernel()
        else:
            self._compute = with_missing_types(name, operator(name), self._compute)
        if draws and not self._takes_generator:
            self._key = None  # every call must go through `_drawing`
            self._compute = self._compute_with_numbers = _drawing(self._compute)
        free = ON_EITHER.get(schema.name.removeprefix("aten::"), set())
        #: Conversions of positional operands. For tensors: the position, and whether the operand
        #: may be a CPU tensor. For other operands: the position and the function that converts the
        #: operand.
        self._tensors: list[tuple[int, bool]] = []
        self._by_position: list[tuple[int, Convert]] = []
        self._by_name: dict[str, Convert] = {}
        self._outputs: list[str] = []
        #: Positions or names of the operands that the operator writes; `sets` maps each alias set
        #: of the schema to its operand.
        self._written: list[int | str] = []
        sets: dict[str, int | str] = {}
        for number, argument in enumerate(schema.arguments):
            place = argument.name if argument.kwarg_only else number
            if argument.is_write:
                sets[aliased(argument)] = place
                if not argument.is_out:
                    self._written.append(place)
            if argument.is_out:
                self._outputs.append(argument.name)
                self._by_name[argument.name] = self._output
            elif _WRAPPERS.sub("", str(argument.type)) in _PLAIN:
                continue
            elif argument.kwarg_only:
                self._by_name[argument.name] = self._operand
            elif str(argument.type) in ("Tensor", "Optional[Tensor]"):
                self._tensors.append((number, number in free))
            else:
                convert = self._anywhere if number in free else self._operand
                self._by_position.append((number, convert))
        #: For each result, the position or name of the operand that is returned; None for a new
        #: tensor.
        self._returned = [sets.get(aliased(argument)) for argument in schema.returns]
        self._is_precise = name.startswith("aten::")
        if self._is_precise and key == "CPU":
            # Operators of aten that change the sizes of operands are left to torch.
            self._written = []
        self._on_cpu = _ON_CPU.get(schema.name.removeprefix("aten::"), set())
        self._makes_new = self._is_precise and not (
            self._on_cpu or any(place is not None for place in self._returned)
        )

    def _take_kernel(self) -> None:
        """Look up the kernel again if kernels have been replaced since the last time."""
        if self._key is not None and self._change != kernel_overrides.changes:
            self._change = kernel_overrides.changes
            kernel = own_kernel(self._name, self._key)
            self._compute = with_missing_types(self._name, operator(self._name), kernel)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._take_kernel()
        compute = self._compute
        count = len(args)
        operands = list(args)
        hosts: Hosts = []
        for number, free in self._tensors:
            if number >= count:
                break
            value = args[number]
            if isinstance(value, torch.Tensor):
                if value.is_cuda:
                    operands[number] = host = to_host(value)
                    hosts.append((host, value))
                elif not free and value.is_cpu and value.dim():
                    raise refusal(self._name)
            elif value is not None:
                # A number was passed for a tensor operand; torch's Python binding converts it to a
                # tensor.
                compute = self._compute_with_numbers
        for number, convert in self._by_position:
            if number < count:
                operands[number] = convert(args[number], hosts)
        named = self._converted(kwargs, hosts) if kwargs or self._takes_generator else kwargs
        if not hosts:
            ask_for_device()
        result = compute(*operands, **named)
        if self._makes_new:
            return _placed(result)
        for name in self._outputs:
            _for_each_pair(_assign, kwargs[name], named[name])
        for place in self._written:
            if isinstance(place, int):
                _for_each_pair(_update, args[place], operands[place])
            else:
                _for_each_pair(_update, kwargs[place], named[place])
        if self._is_precise:
            return self._operands_returned(result, args, kwargs)
        return _placed(result, {id(host): tensor for host, tensor in hosts})

    def _converted(self, kwargs: dict[str, Any], hosts: Hosts) -> dict[str, Any]:
        converts = self._by_name
        named = {
            name: converts[name](value, hosts) if name in converts else value
            for name, value in kwargs.items()
        }
        if named.get("pin_memory"):
            named["pin_memory"] = None
        if self._takes_generator and named.get("generator") is None:
            named["generator"] = default_generator()
        return named

    def _operands_returned(self, result: Any, args: Any, kwargs: Any) -> Any:
        results = result if len(self._returned) > 1 else (result,)
        made = []
        for number, (place, value) in enumerate(zip(self._returned, results, strict=True)):
            if place is not None:
                made.append(args[place] if isinstance(place, int) else kwargs[place])
            else:
                made.append(value if number in self._on_cpu else _placed(value))
        return tuple(made) if len(made) > 1 else made[0]

    # ---- operands for the CPU's kernel

    def _operand(self, value: Any, hosts: Hosts) -> Any:
        if isinstance(value, torch.Tensor) and value.is_cpu and value.dim():
            raise refusal(self._name)
        return self._anywhere(value, hosts, self._operand)

    def _anywhere(self, value: Any, hosts: Hosts, convert: Convert | None = None) -> Any:
        if isinstance(value, torch.Tensor):
            if not value.is_cuda:
                return value
            host = to_host(value)
            hosts.append((host, value))
            return host
        if isinstance(value, (list, tuple)):
            convert = convert or self._anywhere
            return [convert(item, hosts) for item in value]
        if isinstance(value, torch.device):
            if value.type == "cuda" and value.index:
                raise StandInError(
                    f"CUDA error: invalid device ordinal {value.index}; the device map has one "
                    f"device, cuda:0"
                )
            return _CPU if value.type == "cuda" else value
        return value

    def _output(self, value: Any, hosts: Hosts) -> Any:
        """Return a temporary tensor for an `out=` argument, since the kernel may resize it."""
        if isinstance(value, (list, tuple)):
            return [self._output(item, hosts) for item in value]
        if not value.is_cuda:
            raise refusal(self._name)
        if value.layout is not torch.strided:
            return self._operand(value, hosts)
        host = torch.empty(0, dtype=value.dtype, device=_CPU)
        hosts.append((host, value))
        return host


def refusal(name: str) -> RuntimeError:
    """Return torch's own error for operands on the CPU, because scripts may expect its text."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"cuda:0 and cpu! (in {name})"
    )


def aliased(argument: Any) -> str:
    """Return the alias set of an argument or result in the schema; empty for new memory."""
    info = argument.alias_info
    return " ".join(sorted(info.before_set)) if info else ""


def _composed(name: str) -> Kernel:
    """Return a function that calls an operator on the CPU, where torch composes it of others."""
    op = operator(name)
    autocast = dispatch_keys("AutocastCPU")

    def composed(*args: Any, **kwargs: Any) -> Any:
        try:
            if not torch.is_autocast_enabled("cpu"):
                return op(*args, **kwargs)
            # CUDA's autocast has already cast the operands, so the CPU's autocast is skipped.
            with torch._C._ExcludeDispatchKeyGuard(autocast):
                return op(*args, **kwargs)
        except NotImplementedError as error:
            if "Could not run" not in str(error):
                raise
            owner = name.partition("::")[0]
            owner = "torch" if owner in ("aten", "c10d") else f"the library `{owner}`"
            raise UnsupportedError(
                f"{name} on a mapped device: {owner} implements it only for GPUs",
                help="compute the same on CPU tensors (`tensor.cpu()`) with other operators",
            ) from error

    return composed


# ---- results


def _placed(value: Any, operands: dict[int, Any] | None = None) -> Any:
    """Convert a CPU result to a tensor of the device."""
    if isinstance(value, torch.Tensor):
        if operands and id(value) in operands:
            return operands[id(value)]
        return value if value.is_cuda else to_cuda(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_placed(item, operands) for item in value])
    return value


def _for_each_pair(action: Callable[[Any, Any], None], value: Any, host: Any) -> None:
    """Apply an action to a tensor and its CPU tensor, or to each pair of tensors from two lists."""
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            action(value, host)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one, other in zip(value, host, strict=True):
            _for_each_pair(action, one, other)


def _assign(tensor: Any, host: Any) -> None:
    """Copy a result from a temporary tensor to the script's `out=` tensor."""
    if tensor.layout is not torch.strided:
        _update(tensor, host)
    elif tensor.shape == host.shape:
        to_host(tensor).copy_(host)
    elif not tensor.untyped_storage().nbytes():
        storage = to_cuda(host).untyped_storage()
        set_storage(tensor, storage, 0, list(host.shape), list(host.stride()))
    else:
        to_host(resize(tensor, list(host.shape))).copy_(host)


def _update(tensor: Any, host: Any) -> None:
    """Transfer changes of size or of sparse parts from a CPU tensor to the script's tensor."""
    if tensor.layout is torch.strided:
        if host.shape != tensor.shape or host.stride() != tensor.stride():
            offset = tensor.storage_offset()
            storage = tensor.untyped_storage()
            set_storage(tensor, storage, offset, list(host.shape), list(host.stride()))
    elif tensor.layout is torch.sparse_coo:
        own_kernel("aten::copy_sparse_to_sparse_", "SparseCPU")(tensor, to_cuda(host))
    elif tensor.values().data_ptr() != host.values().data_ptr():
        raise UnsupportedError(f"changing in place which elements a {tensor.layout} tensor stores")
