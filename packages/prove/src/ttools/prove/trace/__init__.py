"""Sizes of a script: its launches, with numbers replaced by functions of what tensors measure."""
