"""The device map `cuda=cpu`: torch, Triton and Proton work as if the CPU were a CUDA device."""
