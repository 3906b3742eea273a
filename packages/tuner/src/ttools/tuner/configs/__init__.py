"""Files of configurations that programs ship: reading, checking and writing them."""
