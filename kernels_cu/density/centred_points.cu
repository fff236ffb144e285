// What a centred pass makes of its points in order: blocks of the data, tiles of the queries. Each kernel has a file of its
// own; together they are one compilation.
//
// Macro: STORAGE, the type of the points.
#include "centred_data.cuh"
#include "centred_queries.cuh"
