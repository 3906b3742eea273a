"""The launches of a script, with numbers replaced by expressions over the sizes of its tensors."""
