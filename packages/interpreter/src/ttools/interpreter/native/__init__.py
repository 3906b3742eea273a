"""Native code: compiled, kept on disk, loaded, and mapped to lines."""
