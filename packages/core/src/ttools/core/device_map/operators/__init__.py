"""Operators of torch on tensors of a mapped device."""
