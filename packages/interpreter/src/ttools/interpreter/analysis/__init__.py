"""What is known of a kernel before it is emitted; changes nothing."""
