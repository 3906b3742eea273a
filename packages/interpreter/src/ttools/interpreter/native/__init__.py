"""Native code: compilation, storage on disk, loading, and line tables."""
