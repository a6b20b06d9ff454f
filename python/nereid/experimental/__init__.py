"""Names of Triton that are tried out there. `gluon`, its second front end with layouts written by hand, is not part of Nereid, and
looking for it (`importlib.util.find_spec`, as packages with a choice of kernels do) finds nothing."""
