# Doctest collection would import the benchmark, which needs JAX and PyTorch.
collect_ignore_glob = ["*.py"]
