"""Candidates for `verify`: `right` uses a kernel, `elsewhere` uses NumPy, and `failing` raises."""

import helpers
import program
import torch


def reference(x):
    return x.sum(dim=1)


def right(x):
    rows, columns = helpers.checked(x).shape
    out = torch.empty(rows)
    program.sum_kernel[(rows,)](x, out, columns, BLOCK=128)
    return out


def elsewhere(x):
    right(x)
    return helpers.through_numpy(x)


def failing(x):
    helpers.checked(x[0])
    return right(x)


DOMAIN = {"rows": (1, 6), "columns": (1, 100)}


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, columns, generator=generator)}
