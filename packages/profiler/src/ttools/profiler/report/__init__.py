"""Results of a profile: frames, call trees, advice, comparisons and HTML pages."""
