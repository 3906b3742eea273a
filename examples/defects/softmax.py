"""Softmax with a defect that a comparison of results may miss: the store has no mask.

Each program writes the unused lanes of its block over the beginning of the next row. The program of
that row may run before or after it. The program of the last row writes past the end of the tensor.
Run it with `ttools sanitize examples/defects/softmax.py`.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=float("-inf"))
    exponentials = tl.exp(x - tl.max(x, axis=0))
    out = exponentials / tl.sum(exponentials, axis=0)
    tl.store(out_ptr + row * columns + lanes, out)


def main() -> None:
    device = triton.runtime.driver.active.get_active_torch_device()
    torch.manual_seed(0)
    x = torch.randn(300, 781, device=device)
    out = torch.empty_like(x)
    softmax_kernel[(300,)](x, out, 781, BLOCK=1024)
    print(f"computed softmax: {x.shape[0]} rows of {x.shape[1]} on {device.type}")


if __name__ == "__main__":
    main()
