"""Decisions about tensors: which live in memory, and which are computed where they are used."""
