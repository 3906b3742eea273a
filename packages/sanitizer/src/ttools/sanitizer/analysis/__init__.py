"""What can be known of a kernel from its IR alone, whatever its launches."""
