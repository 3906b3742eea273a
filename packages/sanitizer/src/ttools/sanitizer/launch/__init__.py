"""One launch under the checks: what is known of it, how it runs, also again, and its words."""
