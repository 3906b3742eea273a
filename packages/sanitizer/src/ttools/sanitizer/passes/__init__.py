"""Checks as passes over the IR: each rewrites a parsed module before it is scheduled.

A pass adds ordinary operations for what it must know of a value at run time, its *shadow*, and
`ttools.check` where that decides whether there is a defect. Values about which enough is known
have no shadow and cost nothing. Passes run on a module without calls
(`ttools.ir.inlining`), in the order of the checks they belong to.
"""
