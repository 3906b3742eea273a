"""Abstract domains of integers, such as intervals and strides, and the analyses that use them."""
