// Counter-based random numbers of tokens, and dropout with them (philox.h). Each thread makes four
// numbers, the output of one Philox4x32-10 call (kernels/random/counter_random.h has the definition
// and its source).

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/matrices.h"
#include "kernels/philox_launch.h"
#include "kernels/philox_words.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

// Computes the random numbers of columns [column, column + 4) of a row.
__device__ __forceinline__ void Draw(const PhiloxCall& call, int64_t row, int64_t column,
                                     float (&numbers)[kWords]) {
  uint32_t words[kWords];
  PhiloxWords(call.key, static_cast<uint64_t>(column) / kWords,
              static_cast<uint64_t>(call.identity[row]), words);
  KERNEL_UNROLL for (int i = 0; i < kWords; ++i) {
    numbers[i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
  }
}

__global__ void __launch_bounds__(kMatrixThreads)
    Uniform(const PhiloxCall call, float* out, const bool aligned) {
  ForPieces<kWords>(call.rows, call.width, [&](int64_t row, int64_t column) {
    float numbers[kWords];
    Draw(call, row, column, numbers);
    Store<kWords>(out + row * call.width + column, call.width - column, aligned, numbers);
  });
}

template <typename T>
__global__ void __launch_bounds__(kMatrixThreads)
    Dropout(const DropoutCall call, const bool aligned) {
  const int64_t width = call.numbers.width;
  ForPieces<kWords>(call.numbers.rows, width, [&](int64_t row, int64_t column) {
    float numbers[kWords];
    Draw(call.numbers, row, column, numbers);
    WideOf<T> values[kWords];
    Load<kWords>(static_cast<const T*>(call.x.data) + row * call.x.stride + column, width - column,
                 aligned, values);
    KERNEL_UNROLL for (int i = 0; i < kWords; ++i) {
      // Dropped elements are multiplied by 0, so that non-finite values propagate.
      values[i] *= numbers[i] >= call.rate ? static_cast<WideOf<T>>(call.scale) : WideOf<T>(0);
    }
    Store<kWords>(static_cast<T*>(call.out.data) + row * call.out.stride + column, width - column,
                  aligned, values);
  });
}

template <typename T>
void LaunchTyped(const DropoutCall& call, void* stream) {
  const int64_t width = call.numbers.width;
  const bool aligned =
      IsAligned<kWords>(static_cast<const T*>(call.x.data), call.x.stride, width) &&
      IsAligned<kWords>(static_cast<const T*>(call.out.data), call.out.stride, width);
  Launch(ShapeOfMatrix<kWords>(call.numbers.rows, width, stream), &Dropout<T>, call, aligned);
}

}  // namespace

void LaunchUniform(const PhiloxCall& call, float* out, void* stream) {
  Launch(ShapeOfMatrix<kWords>(call.rows, call.width, stream), &Uniform, call, out,
         IsAligned<kWords>(out, call.width, call.width));
}

void LaunchDropout(const DropoutCall& call, void* stream) {
  ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, stream); });
}

}  // namespace moonring::kernels::KERNEL_SIDE
