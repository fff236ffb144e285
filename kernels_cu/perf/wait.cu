// Keep the device at work for a while, so that kernels launched meanwhile start together.
//
//   waited       (1,)  long long  nanoseconds it took, at least `nanoseconds`
//   nanoseconds        long long
//
// One block of one thread. No barriers.
#include "ptx.cuh"

extern "C" __global__ void wait(long long* __restrict__ waited, long long nanoseconds) {
    const long long begun = nanoseconds_now();
    long long now;
    do now = nanoseconds_now();
    while (now - begun < nanoseconds);
    *waited = now - begun;
}
