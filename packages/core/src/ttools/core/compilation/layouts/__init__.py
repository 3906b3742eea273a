"""Layouts of TTGIR, which assign elements of a tile to threads or to offsets in shared memory."""
