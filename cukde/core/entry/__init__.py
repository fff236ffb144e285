"""What public functions do with their arguments first, and with their results last.

Frames and arrays of other libraries become NumPy's and CuPy's, with columns in the order of the data's names and
without the rows that are left out; results come back as the queries came.
"""
