"""What a profile says: frames, trees, advice, comparisons and pages."""
