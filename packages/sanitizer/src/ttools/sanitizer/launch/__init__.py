"""One launch under the checks: its data, its execution and repetition, and its options."""
