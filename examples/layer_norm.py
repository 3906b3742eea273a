"""Layer normalisation, forward and backward, with a reduction over rows in two stages.

The gradients of the weight and the bias are sums over all rows. Each program adds its row to one
of a few partial sums, taking that sum's lock; a second kernel adds up the partial sums.
"""

import torch
import triton
import triton.language as tl

GROUPS = 8


@triton.jit
def forward_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    # Lanes past the end must not add the square of the mean.
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + lanes, mask=inside)
    bias = tl.load(bias_ptr + lanes, mask=inside)
    tl.store(out_ptr + row * columns + lanes, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def backward_kernel(
    x_ptr, weight_ptr, dout_ptr, mean_ptr, rstd_ptr, dx_ptr,
    partial_dweight_ptr, partial_dbias_ptr, locks_ptr,
    columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + row * columns + lanes, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + lanes, mask=inside, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)

    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    scaled = weight * dout
    # Subtract the parts of the gradient that flow through the mean and the variance.
    along_normal = tl.sum(normal * scaled, axis=0) / columns
    along_ones = tl.sum(scaled, axis=0) / columns
    dx = (scaled - normal * along_normal - along_ones) * rstd
    tl.store(dx_ptr + row * columns + lanes, dx, mask=inside)

    group = row % GROUPS
    # The lock is 0 when free, 1 when held; a counter beside it says whether the sum has begun.
    lock_ptr = locks_ptr + group
    begun_ptr = locks_ptr + GROUPS + group
    partial = group * columns + lanes
    dweight = dout * normal
    dbias = dout
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if tl.load(begun_ptr) == 0:
        tl.store(begun_ptr, 1)
    else:
        dweight += tl.load(partial_dweight_ptr + partial, mask=inside)
        dbias += tl.load(partial_dbias_ptr + partial, mask=inside)
    tl.store(partial_dweight_ptr + partial, dweight, mask=inside)
    tl.store(partial_dbias_ptr + partial, dbias, mask=inside)
    # All threads of the program have stored before one of them frees the lock.
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def sum_groups_kernel(
    partial_dweight_ptr, partial_dbias_ptr, dweight_ptr, dbias_ptr, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    groups = tl.arange(0, GROUPS)
    offsets = groups[:, None] * columns + lanes[None, :]
    inside = lanes < columns
    dweight = tl.sum(tl.load(partial_dweight_ptr + offsets, mask=inside[None, :]), axis=0)
    dbias = tl.sum(tl.load(partial_dbias_ptr + offsets, mask=inside[None, :]), axis=0)
    tl.store(dweight_ptr + lanes, dweight, mask=inside)
    tl.store(dbias_ptr + lanes, dbias, mask=inside)


class LayerNorm(torch.autograd.Function):
    """Normalise the rows of a contiguous matrix; scale and shift them by a weight and a bias."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        rows, columns = x.shape
        out = torch.empty_like(x)
        mean = torch.empty(rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        block = triton.next_power_of_2(columns)
        forward_kernel[(rows,)](x, weight, bias, out, mean, rstd, columns, eps, BLOCK=block)
        ctx.save_for_backward(x, weight, mean, rstd)
        return out

    @staticmethod
    def backward(ctx, dout):
        x, weight, mean, rstd = ctx.saved_tensors
        rows, columns = x.shape
        dx = torch.empty_like(x)
        dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
        # Groups that no row falls into are read as well, so the sums start as zeros.
        partial = torch.zeros((2, GROUPS, columns), dtype=torch.float32, device=x.device)
        locks = torch.zeros(2 * GROUPS, dtype=torch.int32, device=x.device)
        backward_kernel[(rows,)](
            x, weight, dout.contiguous(), mean, rstd, dx, partial[0], partial[1], locks,
            columns, GROUPS=GROUPS, BLOCK=triton.next_power_of_2(columns),
        )  # fmt: skip
        sum_groups_kernel[(triton.cdiv(columns, 128),)](
            partial[0], partial[1], dweight, dbias, columns, GROUPS=GROUPS, BLOCK=128
        )
        return dx, dweight, dbias, None


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    rows, columns, eps = 100, 300, 1e-5
    x = torch.randn(rows, columns, device=device).mul(0.5).sub(2.3).requires_grad_()
    weight = torch.rand(columns, device=device).requires_grad_()
    bias = torch.rand(columns, device=device).requires_grad_()
    dout = torch.randn(rows, columns, device=device)

    out = LayerNorm.apply(x, weight, bias, eps)
    gradients = torch.autograd.grad(out, (x, weight, bias), dout)
    expected = torch.nn.functional.layer_norm(x, (columns,), weight, bias, eps)
    expected_gradients = torch.autograd.grad(expected, (x, weight, bias), dout)

    names = ("out", "dx", "dweight", "dbias")
    results = dict(zip(names, (out.detach(), *gradients), strict=True))
    for name, reference in zip(names, (expected, *expected_gradients), strict=True):
        torch.testing.assert_close(
            results[name],
            reference.detach(),
            rtol=1e-4,
            atol=1e-4,
            msg=lambda m, n=name: f"{n}: {m}",
        )
    print(f"ok layer_norm: {', '.join(names)} of {rows}x{columns} on {device.type}")
    return results


if __name__ == "__main__":
    main()
