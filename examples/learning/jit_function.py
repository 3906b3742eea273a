"""Shows the object that `@triton.jit` returns, and the one that a launch returns.

The page docs/tutorials/jit_functions.md explains it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * factor, mask=offsets < n)


def main() -> None:
    print(type(scale_kernel).__name__, scale_kernel.arg_names)
    print("source begins with:", scale_kernel.src.splitlines()[0])
    x = torch.ones(100)
    compiled = scale_kernel[(2,)](x, 3.0, 100, BLOCK=64)
    products = [line for line in compiled.asm["ttir"].splitlines() if "mulf" in line]
    print("the product:", products[0].split()[2])
    scale_kernel[(1,)](x[:64], 3.0, 64, BLOCK=64)  # 64 is divisible by 16: other code
    scale_kernel[(1,)](x[:48], 3.0, 48, BLOCK=64)  # so is 48: the same code
    (cache, *_) = scale_kernel.device_caches.values()
    print("variants:", len(cache[0]))


if __name__ == "__main__":
    main()
