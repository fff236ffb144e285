// What a centred pass makes of its points in order: blocks of the data, tiles of the queries. Each kernel has a file of its
// own; together they are one compilation.
//
// Macros: STORAGE, the type of the points; in float64 F64, and DEPTH of centred_f64.cuh.
#ifdef F64
#include "centred_data_f64.cuh"
#else
#include "centred_data.cuh"
#endif
#include "centred_queries.cuh"
