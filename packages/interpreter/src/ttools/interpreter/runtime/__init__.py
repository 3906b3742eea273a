"""The runtime of native code: launches, threads, memory, logs, callbacks and signals."""
