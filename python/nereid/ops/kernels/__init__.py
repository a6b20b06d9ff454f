"""The device kernels. Each file stands alone: both routes load it, the Python one as a module and the C++ one by its path."""
