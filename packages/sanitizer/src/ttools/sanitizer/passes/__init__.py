"""Checks as passes over the IR: each rewrites a parsed module before it is scheduled.

A pass computes a *shadow value* beside each value that may be defective (for example, which lanes
are undefined), by ordinary operations, and inserts a `ttools.check` where a defective lane would
affect a result. Values that cannot be defective have no shadow and add no code. Passes run in the
order of their checks on a module whose calls are inlined (`ttools.ir.inlining`).

For example, with `x = tl.load(p + i, mask=i < n)` and no `other`, `undefined` turns

    x = load(p + i, i < n)
    y = x + 1
    store(q + i, y)

into

    x = load(p + i, i < n)
    x_undefined = not (i < n)
    y = x + 1
    check(x_undefined, "… they reach what is stored")
    store(q + i, y)
"""
