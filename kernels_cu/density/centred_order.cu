// What orders the points of a centred pass: the frame of the data, and codes that put neighbours together. Each kernel has a
// file of its own; together they are one compilation.
//
// Macro: STORAGE, the type of the points.
#include "centred_frame.cuh"
#include "centred_codes.cuh"
