// What the centred pass makes of its points before it sums: the frame of the data, codes that put neighbours together, blocks
// of the data in that order, tiles of the queries. Each kernel has a file of its own; together they are one compilation.
//
// Macro: STORAGE, the type of the points.
#include "centred_frame.cuh"
#include "centred_codes.cuh"
#include "centred_data.cuh"
#include "centred_queries.cuh"
