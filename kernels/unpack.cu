// Unpacks packed weights (unpack.h), elementwise, 8 numbers per thread.

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/matrices.h"
#include "kernels/unpack_launch.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 256, kPiece = 8;  // numbers per thread: within one block, 4 bytes of codes
static_assert(kThreads >= kUnpackScaleSteps && kUnpackBlock % kPiece == 0);

// Stores 8 numbers, or only the first `left` of them if fewer than 8 are left.
template <typename T>
__device__ __forceinline__ void StorePiece(T* to, int64_t left, bool aligned,
                                           const float (&numbers)[kPiece]) {
  constexpr int kN = kAtOnce<T>;
  static_assert(kPiece % kN == 0);
  KERNEL_UNROLL for (int begin = 0; begin < kPiece; begin += kN) {
    WideOf<T> some[kN];
    KERNEL_UNROLL for (int i = 0; i < kN; ++i) some[i] = numbers[begin + i];
    Store<kN>(to + begin, left - begin, aligned, some);
  }
}

__device__ __forceinline__ float ScaleOf(const UnpackFourBitsCall& call, const float* scale_steps,
                                         int64_t block) {
  if (call.scale_codes == nullptr) return call.scales[block];
  return Product(scale_steps[call.scale_codes[block]], call.scales[block / kUnpackScaleBlock]) +
         *call.mean;
}

// Unpacks four-bit weights. `aligned`: whether out and the codes of every piece are aligned for
// vector access.
template <typename T>
__global__ void __launch_bounds__(kThreads) FourBits(const UnpackFourBitsCall call, bool aligned) {
  KERNEL_SHARED(float, steps, kUnpackSteps);
  KERNEL_SHARED(float, scale_steps, kUnpackScaleSteps);
  if (threadIdx.x < kUnpackSteps) steps[threadIdx.x] = call.steps[threadIdx.x];
  if (threadIdx.x < kUnpackScaleSteps) scale_steps[threadIdx.x] = call.scale_steps[threadIdx.x];
  __syncthreads();
  const int64_t stride = int64_t{gridDim.x} * blockDim.x * kPiece;
  for (int64_t at = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kPiece; at < call.count;
       at += stride) {
    const int64_t left = call.count - at;
    const bool whole = aligned && left >= kPiece;
    Vector<uint8_t, kPiece / 2> codes{};
    if (whole) {
      codes = WordAt<kPiece / 2>(call.codes + at / 2);
    } else {
      KERNEL_UNROLL for (int i = 0; i < kPiece / 2; ++i) {
        if (2 * i < left) codes.at[i] = call.codes[at / 2 + i];
      }
    }
    const float scale = ScaleOf(call, scale_steps, at / kUnpackBlock);
    float numbers[kPiece];
    KERNEL_UNROLL for (int i = 0; i < kPiece / 2; ++i) {
      numbers[2 * i] = steps[codes.at[i] >> 4] * scale;
      numbers[2 * i + 1] = steps[codes.at[i] & 15] * scale;
    }
    StorePiece(static_cast<T*>(call.out) + at, left, whole, numbers);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMatrixThreads)
    EightBits(const UnpackEightBitsCall call, bool aligned) {
  ForPieces<kPiece>(call.rows, call.width, [&](int64_t row, int64_t column) {
    const int64_t left = call.width - column, at = row * call.width + column;
    Vector<int8_t, kPiece> codes{};
    if (aligned) {
      codes = WordAt<kPiece>(call.codes + at);
    } else {
      KERNEL_UNROLL for (int i = 0; i < kPiece; ++i) {
        if (i < left) codes.at[i] = call.codes[at + i];
      }
    }
    const float scale = call.scales[row] * (1.0f / 127.0f);
    float numbers[kPiece];
    KERNEL_UNROLL for (int i = 0; i < kPiece; ++i) numbers[i] =
        static_cast<float>(codes.at[i]) * scale;
    StorePiece(static_cast<T*>(call.out) + at, left, aligned, numbers);
  });
}

// Whether every piece of codes and of numbers is aligned for vector access.
template <typename T>
bool PiecesAligned(const void* codes, int code_bytes, const void* out) {
  return reinterpret_cast<uintptr_t>(codes) % code_bytes == 0 &&
         reinterpret_cast<uintptr_t>(out) % (sizeof(T) * kAtOnce<T>) == 0;
}

template <typename T>
void LaunchTyped(const UnpackFourBitsCall& call, void* stream) {
  const int64_t most = 8192, needed = (call.count + kThreads * kPiece - 1) / (kThreads * kPiece);
  Shape shape;
  shape.block_x = kThreads;
  shape.grid_x = needed < most ? needed : most;
  shape.stream = stream;
  Launch(shape, &FourBits<T>, call, PiecesAligned<T>(call.codes, kPiece / 2, call.out));
}

template <typename T>
void LaunchTyped(const UnpackEightBitsCall& call, void* stream) {
  const bool aligned = call.width % kPiece == 0 && PiecesAligned<T>(call.codes, kPiece, call.out);
  Launch(ShapeOfMatrix<kPiece>(call.rows, call.width, stream), &EightBits<T>, call, aligned);
}

}  // namespace

void LaunchUnpackFourBits(const UnpackFourBitsCall& call, void* stream) {
  ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, stream); });
}
void LaunchUnpackEightBits(const UnpackEightBitsCall& call, void* stream) {
  ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, stream); });
}

}  // namespace moonring::kernels::KERNEL_SIDE
