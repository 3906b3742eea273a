"""Resources and estimated costs of configurations on a GPU, before they are timed."""
