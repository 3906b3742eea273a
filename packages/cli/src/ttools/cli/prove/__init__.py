"""`ttools prove`: shows the sizes for which launches are correct."""
