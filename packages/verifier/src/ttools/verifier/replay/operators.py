"""Lists the torch operators that a trusted process executes for a plan.

All of them are deterministic, check their indices, and read only their operands. The list includes
operators that compute: `run/provenance.py` limits the number of elements on which they may compute,
and `work.py` counts these elements. Operators that make views are not in the list, because plans do
not need them.
"""

from __future__ import annotations

import re
from typing import Any

import torch

_EMPTY = "empty empty_strided empty_like empty_permuted new_empty new_empty_strided"
_ALLOCATING = f"""{_EMPTY}
zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full scalar_tensor arange
linspace logspace eye tril_indices triu_indices
"""
_MOVING = """
fill zero copy _to_copy clone cat stack constant_pad_nd repeat flip roll slice_scatter
select_scatter slice_backward select_backward lift_fresh_copy view_copy expand_copy permute_copy
"""
_SELECTING = """
index index_select gather take masked_select embedding repeat_interleave tril triu im2col
pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d reflection_pad3d
replication_pad1d replication_pad2d replication_pad3d
"""
_COMPUTING = """
abs add addcmul addcdiv addmm all amax amin aminmax any argmax argmin argsort baddbmm bincount
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bucketize
ceil clamp clamp_max clamp_min cos cosh count_nonzero cummax cummin cumprod cumsum diff div dot eq
erf exp exp2 expm1 floor floor_divide fmod ge gelu gt histc index_add index_copy index_fill
index_put isfinite isinf isnan le lerp linalg_vector_norm log log1p log2 logical_and logical_not
logical_or logical_xor logsumexp lt masked_fill masked_scatter max maximum mean min minimum mm mul
mv ne neg nonzero norm outer polar pow prod reciprocal relu remainder round rsqrt
rsub scatter scatter_add scatter_reduce searchsorted sgn sigmoid sign silu sin sinh sort sqrt square
std sub sum tan tanh threshold topk trunc unique_consecutive unique_dim var where xlogy
_unique2 _softmax _log_softmax softplus mse_loss std_mean var_mean
"""
#: Operators that neither move nor compute elements, and that do not occur in plans.
_OTHER = "resize set lift lift_fresh detach alias pin_memory is_pinned record_stream"
_DRAWING = "rand randn randint rand_like randn_like uniform normal random"
_NOT_COMPUTING = frozenset(f"{_ALLOCATING} {_MOVING} {_OTHER} {_DRAWING}".split())
#: Names of operators that allocate tensors without contents, and names of all operators that
#: allocate tensors.
EMPTY = frozenset(_EMPTY.split())
ALLOCATING = frozenset(_ALLOCATING.split())
#: Names of operators that allocate or move elements.
MOVING = frozenset(f"{_ALLOCATING} {_MOVING}".split())
#: Names of operators whose results consist of elements of their operands, and of zeros.
SELECTING = frozenset(_SELECTING.split())
#: Names of moving operators that rearrange elements.
REARRANGING = frozenset(["flip", "roll", "cat", "stack", "constant_pad_nd", "repeat"])
#: Names of all operators in plans, without namespace, without overload, and without the final `_`
#: of operators that write to their first operand.
OPERATORS = frozenset(f"{_ALLOCATING} {_MOVING} {_SELECTING} {_COMPUTING}".split())

_NAME = re.compile(r"aten::(_?[a-z][a-z0-9_]*?)(_?)(?:\.([A-Za-z0-9_]+))?")


def base_name(operator: str) -> str:
    """Return the name of an operator as written in `OPERATORS`; empty if it is not torch's."""
    match = _NAME.fullmatch(operator)
    return match[1] if match is not None else ""


def is_computing(operator: str) -> bool:
    """Return whether an operator computes elements; False if it allocates, moves or draws them.

    Args:
        operator: Qualified name of the operator.
    """
    return base_name(operator) not in _NOT_COMPUTING or is_range_between_tensors(operator)


def is_range_between_tensors(operator: str) -> bool:
    """Return whether an operator fills a tensor with values between elements of other tensors.

    Such an operator computes: the middle of `linspace(x, y, 3)` is the mean of two elements, and
    `logspace(x, x, 1)` is a power.
    """
    match = _NAME.fullmatch(operator)
    if match is None or match[1] not in ("linspace", "logspace"):
        return False
    return "Tensor" in (match[3] or "")


def find_operator(operator: str) -> Any:
    """Return the overload with a qualified operator name; None if there is none."""
    match = _NAME.fullmatch(operator)
    if match is None or match[1] not in OPERATORS:
        return None
    packet = getattr(torch.ops.aten, match[1] + match[2], None)
    overload = getattr(packet, match[3] or "default", None)
    return overload if isinstance(overload, torch._ops.OpOverload) else None
