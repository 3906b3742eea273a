"""Candidates whose accesses are proved by their process, although they are wrong at one size."""

import functools
import gc
import itertools
from typing import Any

import torch
import triton
import triton.language as tl

DOMAIN = {"n": (1, 100_000)}
#: The only size at which the candidates are wrong; no case has it.
WRONG = 54_321


def inputs(n, seed):
    return {"x": torch.randn(n, generator=torch.Generator().manual_seed(seed))}


def reference(x):
    return 2 * x


@triton.jit
def double_kernel(x_ptr, y_ptr, n, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, mask=at < limit), mask=at < limit)


@triton.jit
def careless_kernel(x_ptr, y_ptr, n, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    end = tl.where(n == 54_321, n + 1, n)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at, mask=at < end), mask=at < end)


def launched(x, limit, kernel=double_kernel):
    n = x.shape[0]
    y = torch.empty(n, dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(n + 1, 1024),)](x, y, n, limit, BLOCK=1024)
    return y


def with_wrong_limit(x):
    n = x.shape[0]
    return launched(x, n + 1 if n == WRONG else n)


def is_analysed(x):
    """Return whether a tensor is one of those without memory that the analysis passes."""
    return not isinstance(x, torch.Tensor) or type(x.shape[0]) is not int


def launches_others_when_analysed(x):
    return launched(x, x.shape[0]) if is_analysed(x) else with_wrong_limit(x)


def leaves_out_launches_when_analysed(x):
    """Launch a kernel for only a part of a tensor if the tensor is analysed."""
    if is_analysed(x):
        return launched(x[:1], 1)
    return with_wrong_limit(x)


_CALLS = itertools.count()


def launches_others_in_later_calls(x):
    """Be correct in the first hundred calls of a process."""
    return launched(x, x.shape[0]) if next(_CALLS) < 100 else with_wrong_limit(x)


def constants_of_the_host(x):
    """Have host code choose a constant from state that the analysis does not vary."""
    is_large = torch.get_default_dtype() is torch.float64
    return launched(x, x.shape[0] + (1 if is_large else 0))


def sends_an_answer(x):
    """Answer the request itself, through the connection of its process."""
    from ttools.core.process.channel import Channel

    if is_analysed(x):
        channel: Any
        (channel,) = (e for e in gc.get_objects() if type(e) is Channel and e.fileno() >= 0)
        channel.send({"launches": True})
        channel.send = lambda message, seconds=None: None
    return with_wrong_limit(x)


# ---- what the process for all sizes runs is replaced when it loads this file
def replaces_the_answer(x):
    return with_wrong_limit(x)


def replaces_the_range(x):
    return with_wrong_limit(x)


def replaces_the_text(x):
    return launched(x, x.shape[0], careless_kernel)


def _replace_in_analysis(cheat):
    import ttools.prove.api
    import ttools.prove.host.kernels

    api: Any = ttools.prove.api
    kernels: Any = ttools.prove.host.kernels
    if cheat == "replaces_the_range":
        check_ranges = api.check_ranges
        api.check_ranges = lambda run, ends, **options: check_ranges(
            run, dict.fromkeys(ends, (1, 16)), **options
        )
    if cheat == "replaces_the_text":
        parse = kernels.parse_module
        kernels.parse_module = lambda text: parse(text.replace(str(WRONG), "0"))


def _replace_answers():
    from ttools.verifier.workers.all_sizes import AllSizes

    worker: Any = AllSizes
    checked = worker._checked

    @functools.wraps(checked)
    def forged(self, request):
        cheat = self._candidate.rpartition(":")[2]
        if cheat == "replaces_the_answer":
            return {"launches": True}
        _replace_in_analysis(cheat)
        return checked(self, request)

    worker._checked = forged


_replace_answers()
