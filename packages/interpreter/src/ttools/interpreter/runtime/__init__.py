"""The runtime of native code: threads, memory, logs and callbacks."""
