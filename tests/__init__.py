"""What every process of the tests has before it imports NumPy."""

import os

# Tests share the processors with other tests and with compilers: threads of OpenBLAS that spin while they wait for the
# next product would take more of them than all products.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # spins 2^4 cycles before it sleeps
