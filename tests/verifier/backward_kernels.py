"""Candidates with backward passes, some of which are wrong only in unusual backward passes."""

import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 9), "columns": (1, 40)}


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(rows, columns, generator=generator) for _ in range(2))
    return {"x": x.requires_grad_(), "w": w.requires_grad_()}


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + at, mask=at < n), tl.load(b_ptr + at, mask=at < n)
    tl.store(out_ptr + at, a * b, mask=at < n)


def multiplied(a, b, out=None):
    a, b = a.contiguous(), b.contiguous()
    out = torch.empty(a.shape) if out is None else out
    product_kernel[(triton.cdiv(a.numel(), 64),)](a, b, out, a.numel(), BLOCK=64)
    return out


# ---- two results
def two_results_reference(x, w):
    return x * w, x.sin()


@triton.jit
def two_results_kernel(x_ptr, w_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, w = tl.load(x_ptr + at, mask=at < n), tl.load(w_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * w, mask=at < n)
    tl.store(z_ptr + at, tl.sin(x), mask=at < n)


@triton.jit
def two_gradients_kernel(
    x_ptr, w_ptr, dy_ptr, dz_ptr, dx_ptr, dw_ptr, n,
    HAS_DY: tl.constexpr, HAS_DZ: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, w = tl.load(x_ptr + at, mask=at < n), tl.load(w_ptr + at, mask=at < n)
    dx, dw = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    if HAS_DY:
        dy = tl.load(dy_ptr + at, mask=at < n)
        dx += dy * w
        dw += dy * x
    if HAS_DZ:
        dx += tl.load(dz_ptr + at, mask=at < n) * tl.cos(x)
    tl.store(dx_ptr + at, dx, mask=at < n)
    tl.store(dw_ptr + at, dw, mask=at < n)


class _TwoResults(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        x, w = x.contiguous(), w.contiguous()
        ctx.save_for_backward(x, w)
        y, z = torch.empty(x.shape), torch.empty(x.shape)
        blocks = triton.cdiv(x.numel(), 64)
        two_results_kernel[(blocks,)](x, w, y, z, x.numel(), BLOCK=64)
        return y, z

    @staticmethod
    def backward(ctx, dy, dz):
        x, w = ctx.saved_tensors
        dx, dw = torch.empty(x.shape), torch.empty(x.shape)
        dy, dz = (None if g is None else g.contiguous() for g in (dy, dz))
        two_gradients_kernel[(triton.cdiv(x.numel(), 64),)](
            x, w, dy, dz, dx, dw, x.numel(),
            HAS_DY=dy is not None, HAS_DZ=dz is not None, BLOCK=64,
        )  # fmt: skip
        return dx, dw


class _TwoResultsOfNone(_TwoResults):
    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        return _TwoResults.forward(ctx, x, w)


class _ConfusesResults(_TwoResultsOfNone):
    @staticmethod
    def backward(ctx, dy, dz):
        return _TwoResults.backward(ctx, dy, dy if dz is None else dz)


def two_results(x, w):
    return _TwoResults.apply(x, w)


def skips_unused_results(x, w):
    return _TwoResultsOfNone.apply(x, w)


def confuses_unused_results(x, w):
    """Use the gradient of the first result for the second one if that is not used."""
    return _ConfusesResults.apply(x, w)


# ---- products
def product_reference(x, w):
    return x * w


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return multiplied(x, w)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return multiplied(gradient, w), multiplied(gradient, x)


class _Overwriting(torch.autograd.Function):
    """The backward pass writes the gradients to copies that the forward pass has saved."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.copies = x.contiguous().clone(), w.contiguous().clone()
        return multiplied(x, w)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.copies
        return multiplied(gradient, w, w), multiplied(gradient, x, x)


class _Freeing(torch.autograd.Function):
    """The backward pass frees what the forward pass has saved."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.copies = x, w
        return multiplied(x, w)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.copies
        del ctx.copies
        return multiplied(gradient, w), multiplied(gradient, x)


def product(x, w):
    return _Product.apply(x, w)


def overwrites_saved_copies(x, w):
    return _Overwriting.apply(x, w)


def frees_saved_tensors(x, w):
    return _Freeing.apply(x, w)
