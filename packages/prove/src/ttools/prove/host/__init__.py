"""Host code with sizes and tensors that are not there, and the launches that it makes."""
