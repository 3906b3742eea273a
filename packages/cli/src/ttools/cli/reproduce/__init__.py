"""`ttools reproduce`: bits of results from run to run, in all configurations, for all batches."""
