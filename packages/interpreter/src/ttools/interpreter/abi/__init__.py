"""The interface between native code and Python: module data, memory layouts, memory regions."""
