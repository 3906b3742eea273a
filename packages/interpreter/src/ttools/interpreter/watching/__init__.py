"""Watching: what named variables hold, recorded while a kernel runs as native code."""
