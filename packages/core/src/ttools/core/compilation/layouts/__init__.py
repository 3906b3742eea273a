"""Layouts of TTGIR: which thread holds which element of a tile, where shared memory has it."""
