"""Calls functions of the device's mathematical library by name.

Triton maps functions such as `libdevice.asin` to the library of the kernel's target
and picks the f32 or the f64 function by the type of the argument.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def special_functions_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    # Six rows of output, one function each.
    tl.store(out_ptr + 0 * n + offsets, libdevice.asin(x), mask=inside)
    tl.store(out_ptr + 1 * n + offsets, libdevice.tanh(x), mask=inside)
    tl.store(out_ptr + 2 * n + offsets, libdevice.log1p(x), mask=inside)
    tl.store(out_ptr + 3 * n + offsets, libdevice.pow(x + 2, x), mask=inside)
    tl.store(out_ptr + 4 * n + offsets, libdevice.round(x * 10), mask=inside)
    tl.store(out_ptr + 5 * n + offsets, libdevice.hypot(x, x - 1), mask=inside)


def special_functions(x: torch.Tensor) -> torch.Tensor:
    """Return a row per function of a vector with values in (-1, 1)."""
    out = torch.empty((6, x.numel()), dtype=x.dtype, device=x.device)
    special_functions_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def main() -> dict[str, torch.Tensor]:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    results = {}
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-14)):
        x = torch.rand(5_000, dtype=torch.float64, device=device).mul(1.98).sub(0.99).to(dtype)
        out = special_functions(x)
        expected = torch.stack([
            torch.asin(x), torch.tanh(x), torch.log1p(x), torch.pow(x + 2, x),
            # torch rounds halves to even, libdevice away from zero.
            torch.sign(x) * torch.floor(torch.abs(x * 10) + 0.5), torch.hypot(x, x - 1),
        ])  # fmt: skip
        torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
        results[str(dtype)] = out
    print(f"ok libdevice: 6 functions in f32 and f64 on {device.type}")
    return results


if __name__ == "__main__":
    main()
