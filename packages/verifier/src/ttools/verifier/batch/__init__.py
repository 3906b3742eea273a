"""Many files, one verdict each: in processes of this machine, or on those of a Ray cluster."""
