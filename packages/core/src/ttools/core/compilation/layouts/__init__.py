"""Layouts of TTGIR: which thread holds which element, and where it lies in shared memory."""
