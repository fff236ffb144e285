"""Data frames and series of other libraries as arrays, and arrays as theirs: nothing is imported that is not there."""
