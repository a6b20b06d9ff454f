"""What host code needs beside kernels."""
