"""Counts the operations and bytes of a launch by source line, without annotations in the kernel.

The kernel is rewritten so that it computes only its loops, branches, masks and addresses, and is
run once with counters. The rewritten kernel computes no results and writes no memory.
"""
