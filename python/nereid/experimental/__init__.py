"""Names of Triton that are tried out there."""
