"""`ttools prove`: shows for which sizes launches are right."""
