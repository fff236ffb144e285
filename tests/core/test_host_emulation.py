"""The kernel emulator itself, on tiny kernels: what must work works, and what a GPU would punish is caught."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import cukde
from tests import compiled, host_emulation
from tests.host_emulation import _build
from tests.private import backend_of, core_compile

pytestmark = pytest.mark.skipif(not host_emulation.available()[0], reason=host_emulation.available()[1])

WARP = (32,)


def kernel(source: str) -> host_emulation.EmulatedKernel:
    return host_emulation.from_source(source, "kernel")


def nans(n: int) -> np.ndarray:
    return np.full(n, np.nan, np.float32)


# ------------------------------------------------------------------------------------- barriers and shuffles

BLOCK_SUM = """
extern "C" __global__ void __launch_bounds__(256) kernel(const float* __restrict__ x, float* total, int n) {
    __shared__ float part[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}
"""


def test_blocks_reduce_over_barriers_and_add_atomically():
    x = np.arange(1000, dtype=np.float32)
    total = np.ones(1, np.float32)
    kernel(BLOCK_SUM)((4,), (256,), (x, total, np.int32(1000)))
    assert total[0] == 1 + x.sum()


SHUFFLES = """
extern "C" __global__ void kernel(const int* x, int* out) {
    const int lane = threadIdx.x % 32, own = x[threadIdx.x];
    int* mine = out + threadIdx.x * 6;
    mine[0] = __shfl_xor_sync(~0u, own, 5);
    mine[1] = __shfl_xor_sync(~0u, own, 5, 4);
    mine[2] = __shfl_sync(~0u, own, 35);
    mine[3] = __shfl_sync(~0u, own, 9, 8);
    mine[4] = __shfl_down_sync(~0u, own, 3);
    mine[5] = lane < 16 ? __shfl_down_sync(0x0000ffffu, own, 1, 16) : 0;
}
"""


def test_shuffles_read_the_lanes_that_cuda_says():
    threads = 64
    x = np.random.default_rng(0).integers(0, 1000, threads).astype(np.int32)
    out = np.zeros((threads, 6), np.int32)
    kernel(SHUFFLES)((1,), (threads,), (x, out))
    lane = np.arange(threads) % 32
    warp = np.arange(threads) - lane
    np.testing.assert_array_equal(out[:, 0], x[warp + (lane ^ 5)])
    # Beyond its segment of 4 lanes a lane reads a lower segment; above it, itself.
    np.testing.assert_array_equal(out[:, 1], x[warp + np.where((lane ^ 5) // 4 <= lane // 4, lane ^ 5, lane)])
    np.testing.assert_array_equal(out[:, 2], x[warp + 3])
    np.testing.assert_array_equal(out[:, 3], x[warp + lane // 8 * 8 + 1])
    np.testing.assert_array_equal(out[:, 4], x[warp + np.where(lane + 3 < 32, lane + 3, lane)])
    below = np.where(lane < 15, lane + 1, lane)
    np.testing.assert_array_equal(out[:, 5], np.where(lane < 16, x[warp + below], 0))


# --------------------------------------------------------------------------------------------- ptx.cuh

MMA = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const float* a, const float* b, float* c) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const unsigned left[4] = {__float_as_uint(a[g * 8 + t]), __float_as_uint(a[(g + 8) * 8 + t]),
                              __float_as_uint(a[g * 8 + t + 4]), __float_as_uint(a[(g + 8) * 8 + t + 4])};
    const unsigned right[2] = {__float_as_uint(b[t * 8 + g]), __float_as_uint(b[(t + 4) * 8 + g])};
    float sum[4] = {c[g * 8 + 2 * t], c[g * 8 + 2 * t + 1], c[(g + 8) * 8 + 2 * t], c[(g + 8) * 8 + 2 * t + 1]};
    mma_tf32_m16n8k8(sum, left, right);
    c[g * 8 + 2 * t] = sum[0];
    c[g * 8 + 2 * t + 1] = sum[1];
    c[(g + 8) * 8 + 2 * t] = sum[2];
    c[(g + 8) * 8 + 2 * t + 1] = sum[3];
}
"""


def test_mma_tf32_multiplies_by_the_documented_layout_and_ignores_low_bits():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 8), (16, 8)))
    a64, b64 = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for x in (a, b))
    expected = (c + a64 @ b64).astype(np.float32)
    assert abs(expected - (c + a @ b)).max() > 1e-4  # the low bits would show
    kernel(MMA)((1,), WARP, (a, b, c))
    np.testing.assert_allclose(c, expected, rtol=2**-23)


MMA_F16 = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const uint4* a, const uint4* b, float* c) {
    __shared__ uint4 left[16], right[8];
    if (threadIdx.x < 16) left[threadIdx.x] = a[threadIdx.x];
    if (threadIdx.x < 8) right[threadIdx.x] = b[threadIdx.x];
    __syncwarp();
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned of_left[2], of_right[2];
    // Of the 32 addresses the last 16 count for nothing; the second matrix of the right operand neither.
    load_matrices(of_left, threadIdx.x < 16 ? &left[threadIdx.x] : nullptr);
    load_matrices(of_right, &right[threadIdx.x % 8]);
    float product[4] = {1, 2, 3, 4};
    mma_f16_m16n8k8(product, of_left, of_right[0], product);
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = product[i];
}
"""


def test_mma_f16_multiplies_rows_that_load_matrices_brings():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 8), (8, 8)))
    c = nans((16, 8))
    kernel(MMA_F16)((1,), WARP, (a.view(np.uint16), b.view(np.uint16), c))
    before = np.tile([[1.0, 2.0]], (8, 4)), np.tile([[3.0, 4.0]], (8, 4))
    cut_off = 9 * 2**-25 * 16  # of nine terms below 16, each at 2^-25 of the largest
    exact = np.vstack(before) + a.astype(float) @ b.T.astype(float)
    np.testing.assert_allclose(c, exact, rtol=2**-22, atol=cut_off)


MMA_F64 = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const double* a, const double* b, double* c) {
    __shared__ double right[64];
    for (int i = threadIdx.x; i < 64; i += 32) copy_async_8(&right[i], b + i, i != 63);
    copy_async_commit();
    copy_async_wait<0>();
    __syncwarp();
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const double left[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]};
    const double before[4] = {1, 2, 3, 4};
    double product[4];
    mma_f64_m16n8k8(product, left, right[t * 8 + g], right[(t + 4) * 8 + g], before);
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = product[i];
}
"""


def test_mma_f64_multiplies_what_asynchronous_copies_bring():
    """The last element of the right operand is said not to exist, and is zero."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 8)), rng.standard_normal((8, 8))
    c = np.full((16, 8), np.nan)
    kernel(MMA_F64)((1,), WARP, (a, b, c))
    b[7, 7] = 0
    before = np.tile([[1.0, 2.0]], (8, 4)), np.tile([[3.0, 4.0]], (8, 4))
    np.testing.assert_allclose(c, np.vstack(before) + a @ b, rtol=1e-14, atol=1e-14)


MMA_INTEGER = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const unsigned* a, const unsigned* b, int* bits, int* bytes) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const unsigned left[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4]};
    int of_bits[4] = {1, 2, 3, 4}, of_bytes[4] = {1, 2, 3, 4};
    mma_b1_m16n8k256(of_bits, left, b[g * 8 + t], b[g * 8 + t + 4]);
    mma_s8_m16n8k32(of_bytes, left, b[g * 8 + t], b[g * 8 + t + 4]);
    for (int i = 0; i < 4; i++) {
        bits[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = of_bits[i];
        bytes[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = of_bytes[i];
    }
}
"""


def test_mma_of_bits_and_bytes_multiply_by_the_documented_layout():
    """Rows of both operands are 32 bytes, of which element k is bit k or byte k."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (16, 8))
    bits, bytes_ = np.full((16, 8), -1, np.int32), np.full((16, 8), -1, np.int32)
    kernel(MMA_INTEGER)((1,), WARP, (a.view(np.uint32), b.view(np.uint32), bits, bytes_))
    before = np.vstack((np.tile([1, 2], (8, 4)), np.tile([3, 4], (8, 4))))
    a1, b1 = (np.unpackbits(x, axis=1).astype(int) for x in (a, b))
    np.testing.assert_array_equal(bits, before + a1 @ b1.T)
    np.testing.assert_array_equal(bytes_, before + a.view(np.int8).astype(int) @ b.view(np.int8).astype(int).T)


SIGNS = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const unsigned* a, const unsigned* b, unsigned* difference, unsigned* bytes) {
    const int i = threadIdx.x;
    difference[i] = subtract_f16x2(a[i], b[i]);
    bytes[i] = sign_bytes(difference[i], a[i]);
}
"""


def test_float16_differences_keep_denormals_and_signs_fill_bytes():
    """Neighbours, equal ones, zeros and the extremes."""
    a = np.array([1, 1, 6e-8, 0, -65504, 65504, -6e-8, 2], np.float16)
    b = np.array([1, 1 + 2**-10, 1.2e-7, 6e-8, 65504, -65504, -6e-8, -3], np.float16)
    difference, bytes_ = np.zeros(4, np.uint32), np.zeros(4, np.uint32)
    kernel(SIGNS)((1,), (4,), (a.view(np.uint32), b.view(np.uint32), difference, bytes_))
    with np.errstate(over="ignore"):
        expected = a - b
    np.testing.assert_array_equal(difference.view(np.uint16), expected.view(np.uint16))
    signs = np.signbit(np.concatenate((expected.reshape(4, 2), a.reshape(4, 2)), axis=1))
    np.testing.assert_array_equal(bytes_.view(np.uint8).reshape(4, 4), np.where(signs, 255, 0))


CONVERSIONS = """
#include "ptx.cuh"
extern "C" __global__ void kernel(const float* x, float* tf32, float* power) {
    tf32[threadIdx.x] = __uint_as_float(to_tf32(x[threadIdx.x]));
    power[threadIdx.x] = exp2_approx(x[threadIdx.x]);
}
"""


def test_to_tf32_rounds_ties_away_and_exp2_approx_flushes_denormals():
    x = np.array([1 + 2**-11, -1 - 2**-11, 1 + 2**-12, -126, -126.5, -149, 0, 10], np.float32)
    tf32, power = nans(8), nans(8)
    kernel(CONVERSIONS)((1,), (8,), (x, tf32, power))
    np.testing.assert_array_equal(tf32, [1 + 2**-10, -1 - 2**-10, 1, -126, -126.5, -149, 0, 10])
    np.testing.assert_array_equal(power[3:], [2**-126, 0, 0, 1, 1024])


# ------------------------------------------------------------------------------------------- deadlocks

DEADLOCKS = """
extern "C" __global__ void kernel(int mistake, int n) {
    if (mistake == 0 && threadIdx.x >= n) return;
    if (mistake == 1) {
        if (threadIdx.x < n) __syncthreads();
        else __syncthreads();
    }
    if (mistake == 2 && threadIdx.x % 32 < n) __shfl_xor_sync(~0u, 1, 1);
    if (mistake == 3) {
        if (threadIdx.x < n) __syncwarp();
        else __shfl_sync(~0u, 1, 0);
    }
    if (mistake == 4) __shfl_sync(1u, 1, 0);
    if (mistake == 5) __syncwarp();
    __syncthreads();
}
"""


@pytest.mark.parametrize(
    ("mistake", "threads", "n", "complaint"),
    [
        pytest.param(0, 64, 40, "deadlock: 40 of 64.*__syncthreads.*24 of 64.*returned", id="early-return"),
        pytest.param(1, 64, 40, "different __syncthreads: lines", id="barriers-of-two-branches"),
        pytest.param(2, 64, 16, "deadlock: 32 of 64.*__shfl_xor_sync.*32 of 64.*__syncthreads", id="missing-lanes"),
        pytest.param(3, 32, 16, "different collectives: .*__syncwarp.*", id="two-collectives"),
        pytest.param(4, 32, 0, "not in its own mask 00000001", id="outside-mask"),
        pytest.param(5, 40, 0, "mask ffffffff names lanes of a warp that has only 8", id="part-of-a-warp"),
    ],
)
def test_threads_that_can_never_meet_end_the_launch(mistake, threads, n, complaint):
    with pytest.raises(host_emulation.LaunchError, match=complaint):
        kernel(DEADLOCKS)((1,), (threads,), (np.int32(mistake), np.int32(n)))


def test_a_launch_that_failed_leaves_nothing_behind():
    with pytest.raises(host_emulation.LaunchError, match="deadlock"):
        kernel(DEADLOCKS)((1,), (64,), (np.int32(0), np.int32(40)))
    kernel(DEADLOCKS)((3,), (64,), (np.int32(0), np.int32(64)))


RACE = """
extern "C" __global__ void kernel(float* out) {
    __shared__ float of_thread[64];
    of_thread[threadIdx.x] = threadIdx.x;
    const int neighbour = (threadIdx.x + 32) % 64;
    out[blockIdx.x * 64 + threadIdx.x] = of_thread[neighbour];
}
"""


def test_missing_barrier_shows_in_both_directions():
    out = nans(16 * 64)
    kernel(RACE)((16,), (64,), (out,))
    lost = np.isnan(out).reshape(16, 2, 32)
    np.testing.assert_array_equal(lost.any(axis=0).sum(axis=1), [32, 32])
    assert not lost.all(axis=0).any()  # the warp that runs first varies


# ---------------------------------------------------------------------------------------------- memory

UNINITIALISED = """
template <int size>
__device__ float first(float value) {
    __shared__ float held[size];
    const float before = held[threadIdx.x];
    held[threadIdx.x] = value;
    return before;
}
extern "C" __global__ void kernel(float* single, double* both) {
    __shared__ double plain[4];
    single[blockIdx.x * 4 + threadIdx.x] = first<4>(1.0f) + first<8>(2.0f);
    both[blockIdx.x * 4 + threadIdx.x] = plain[threadIdx.x];
    plain[threadIdx.x] = 3.0;
}
"""


def test_shared_memory_is_nan_until_written_in_every_block():
    single, double = np.zeros(8, np.float32), np.zeros(8)
    kernel(UNINITIALISED)((2,), (4,), (single, double))
    assert np.isnan(single).all()
    assert np.isnan(double).all()


DYNAMIC = """
extern "C" __global__ void kernel(float* out, int at) {
    extern __shared__ float4 held[];
    float* numbers = reinterpret_cast<float*>(held);
    out[blockIdx.x * 32 + threadIdx.x] = numbers[threadIdx.x];
    __syncthreads();
    numbers[at + int(threadIdx.x)] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] += numbers[at + 31 - int(threadIdx.x)];
}
"""


def test_dynamic_shared_memory_is_as_large_as_the_launch_says():
    out = np.zeros(64, np.float32)
    kernel(DYNAMIC)((2,), (32,), (out, np.int32(25312)), shared_mem=99 * 1024)  # its last 32 numbers
    assert np.isnan(out).all()  # until written, in every block
    kernel(DYNAMIC.replace("+=", "="))((2,), (32,), (out, np.int32(0)), shared_mem=128)
    np.testing.assert_array_equal(out, np.tile(np.arange(32)[::-1], 2))


@pytest.mark.parametrize(
    ("at", "where"),
    [
        (1, "segmentation fault .*: 1 bytes past the end"),
        (-1, "wrote 1 bytes before the start"),
        (-5000, "segmentation fault .*: .* bytes before the start"),
    ],
)
def test_writes_outside_dynamic_shared_memory_are_caught(at, where):
    with pytest.raises(host_emulation.LaunchError, match=f"{where} of dynamic shared memory"):
        kernel(DYNAMIC)((1,), (32,), (nans(32), np.int32(at)), shared_mem=128)


OUT_OF_RANGE = """
extern "C" __global__ void kernel(const float* x, float* out, int read, int write) {
    out[write] = x[read];
}
"""


@pytest.mark.parametrize(("read", "where"), [(-3000, "12000 bytes before the start"), (9000, "bytes past the end")])
def test_reads_outside_an_array_are_caught(read, where):
    args = np.ones(5, np.float32), np.zeros(1, np.float32), np.int32(read), np.int32(0)
    with pytest.raises(host_emulation.LaunchError, match=f"segmentation fault .*{where} of argument 0"):
        kernel(OUT_OF_RANGE)((1,), (1,), args)


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (-1, "wrote . bytes before the start"),
        (2, "wrote 1 bytes past the end"),
        (5000, "segmentation fault .*: 19993 bytes past the end"),
    ],
)
def test_writes_outside_an_array_are_caught(write, where):
    args = np.ones(5, np.float32), np.zeros(2, np.float32), np.int32(0), np.int32(write)
    with pytest.raises(host_emulation.LaunchError, match=f"{where} of argument 1"):
        kernel(OUT_OF_RANGE)((1,), (1,), args)


FAULTS = """
__device__ int deep(int n) {
    volatile int frame[256];
    frame[n % 256] = n;
    return n > 0 ? deep(n - 1) + frame[n % 256] : 0;
}
extern "C" __global__ void kernel(float* x, int fault, int n, float* nothing) {
    __shared__ float held[8];
    float local[4] = {};
    if (fault == 0) held[n] = 1.0f;
    if (fault == 1) x[0] = local[n];
    if (fault == 2) x[4] = reinterpret_cast<float4*>(x + 1)->x;
    if (fault == 3) x[0] = n * n * n;
    if (fault == 4) x[0] = 1 << n;
    if (fault == 5) x[0] = 5 / n;
    if (fault == 6) *nothing = 1.0f;
    if (fault == 7) x[0] = deep(n);
}
"""


@pytest.mark.parametrize(
    ("fault", "n", "complaint"),
    [
        pytest.param(0, 8, r"index out of the bounds of an array \(kernel.cu:10\)", id="shared-array"),
        pytest.param(1, -1, r"index out of the bounds of an array \(kernel.cu:11\)", id="local-array"),
        pytest.param(2, 0, r"misaligned access \(kernel.cu:12\)", id="misaligned"),
        pytest.param(3, 2000, r"overflow of a signed integer \(kernel.cu:13\)", id="int32-overflow"),
        pytest.param(4, 32, r"shift by more than the bits there are \(kernel.cu:14\)", id="shift"),
        pytest.param(5, 0, r"integer division by zero \(kernel.cu:15\)", id="division"),
        pytest.param(6, 0, "segmentation fault at address", id="null-pointer"),
        pytest.param(7, 10**6, "segmentation fault at address", id="stack-overflow"),
    ],
)
def test_faults_end_the_launch_and_not_the_process(fault, n, complaint):
    place = r"kernel: block \(0, 0, 0\), thread \(0, 0, 0\)"
    with pytest.raises(host_emulation.LaunchError, match=f"{place}: {complaint}"):
        kernel(FAULTS)((1,), (1,), (np.zeros(8, np.float32), np.int32(fault), np.int32(n), 0))


# --------------------------------------------------------------------------------------------- arguments


# -------------------------------------------------------------------------------------- the GPU backend


def test_use_sends_numpy_arrays_through_launcher_and_kernels(monkeypatch):
    X = np.random.default_rng(0).standard_normal((70, 3)).astype(np.float32)
    expected = cukde.kde(X, X[:5], 0.5)
    host_emulation.use(monkeypatch)
    names = []

    def noted(stem, name, defines, shared_bytes=0):
        names.append(name)
        return host_emulation.kernel(stem, name, defines, shared_bytes)

    monkeypatch.setattr("cukde.core.gpu.compile.kernel", noted)
    np.testing.assert_allclose(cukde.kde(X, X[:5], 0.5), expected, rtol=1e-5)
    assert names
    monkeypatch.undo()
    assert backend_of(X).__name__ == "cukde.core.cpu.arrays"


def test_fresh_device_memory_is_nan_and_only_names_of_cupy_exist(monkeypatch):
    host_emulation.use(monkeypatch)
    xp = importlib.import_module("cukde.core.gpu.arrays").xp
    assert np.isnan(xp.empty((2, 3), np.float32)).all()
    assert np.isnan(xp.empty_like(np.zeros(2))).all()
    assert xp.empty((3, 0)).shape == (3, 0)
    assert (xp.empty(3, dtype=np.int32) == -1).all()
    with pytest.raises(AttributeError):
        xp.no_such_function  # noqa: B018


def test_what_another_checkout_has_built_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "folder", lambda: tmp_path)
    wanted = "family/one", "one", (("VALUE", "7"),)
    for checkout in ("first", "second"):
        folder = tmp_path / checkout / "kernels_cu"
        (folder / "family").mkdir(parents=True)
        (folder / "family" / "value.cuh").write_text("#pragma once\n#define GIVEN VALUE\n")
        source = '#include "value.cuh"\nextern "C" __global__ void one(int* x) { *x = GIVEN; }'
        (folder / "family" / "one.cu").write_text(source)
        monkeypatch.setattr(core_compile, "_FOLDERS", (folder,))
        if checkout == "first":
            host_emulation.prebuild(*wanted)
            monkeypatch.setattr(_build, "_run", None)
    x = np.zeros(1, np.int32)
    host_emulation.kernel(*wanted)((1,), (1,), (x,))
    assert x == 7
