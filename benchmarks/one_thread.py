"""Import this before anything else: numerical libraries read the number of threads when they are first imported."""

import os

for _name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
