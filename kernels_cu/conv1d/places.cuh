// The elements of an array of a depthwise convolution that a thread owns, in any memory layout.
//
// blockDim.x threads lie along the contiguous axis, the positions of a row or, if these are last, the channels;
// blockDim.y threads lie along all other axes. Blocks do so, too, those along the contiguous axis first.
#pragma once

struct Place {
    bool exists;
    long long item, channel;  // of the batch
    long long first;          // position, of several which are `step` apart
    long long step;
};

// Of `own` positions a thread, of `positions` a row. Places beyond the arrays do not exist; positions may not.
template <int own>
__device__ inline Place place_of(long long batch, long long channels, long long positions, int channels_last) {
    const unsigned across = channels_last ? blockDim.x : own * blockDim.x;
    const long long contiguous = channels_last ? channels : positions;
    const unsigned tiles = unsigned((contiguous + across - 1) / across), tile = blockIdx.x % tiles;
    const long long other = (long long)(blockIdx.x / tiles) * blockDim.y + threadIdx.y;
    const long long lane = (long long)tile * across + threadIdx.x;
    if (channels_last) {
        const long long chunks = (positions + own - 1) / own;
        return {lane < channels && other < batch * chunks, other / chunks, lane, other % chunks * own, 1};
    }
    return {other < batch * channels, other / channels, other % channels, lane, blockDim.x};
}

// Where position 0 of the item and the channel of a place is.
__device__ inline long long origin(const Place& place, long long channels, long long positions, int channels_last) {
    return channels_last ? place.item * positions * channels + place.channel
                         : (place.item * channels + place.channel) * positions;
}
