"""What runs beneath native code: threads, memory, logs, callbacks."""
