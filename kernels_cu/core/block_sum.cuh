// Sum over the threads of a block; thread 0 has it. All threads call; barriers: two.
#pragma once

template <int threads>
__device__ inline unsigned long long block_sum(unsigned long long value) {
    __shared__ unsigned long long of_warp[threads / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    __syncthreads();  // an earlier sum has been read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    unsigned long long sum = 0;
    if (threadIdx.x == 0)
        for (int warp = 0; warp < threads / 32; warp++) sum += of_warp[warp];
    return sum;
}
