"""Scalar functions in the language, one for each operator. They work on blocks; 16-bit floats arrive as fp32. Each file stands alone."""
