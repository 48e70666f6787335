#ifndef MOONRING_KERNELS_VECTORS_H_
#define MOONRING_KERNELS_VECTORS_H_

// Loads and stores of N elements of a row at a time, for .cu files. If n threads share a row,
// thread t processes elements [N t, N t + N), then the elements N n further on, and so on, whether
// or not the alignment permits vector access. So the order of a row's sums does not depend on its
// address.

#include "kernels/language.h"

namespace moonring::kernels::KERNEL_SIDE {

template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T at[N];
};

// N elements in one load or store. An address that is not a multiple of the vector's size is an
// error on a GPU; on the CPU it throws.
template <int N, typename T>
__device__ __forceinline__ const Vector<T, N>& WordAt(const T* from) {
#ifndef __CUDACC__
  fibers::CheckWord(from, sizeof(Vector<T, N>));
#endif
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <int N, typename T>
__device__ __forceinline__ Vector<T, N>& WordAt(T* to) {
#ifndef __CUDACC__
  fibers::CheckWord(to, sizeof(Vector<T, N>));
#endif
  return *reinterpret_cast<Vector<T, N>*>(to);
}

// How many elements of the widest of these types fill 16 bytes.
template <typename... Ts>
constexpr int kAtOnce =
    16 / static_cast<int>(sizeof(
             std::conditional_t<(... || (sizeof(Ts) == 8)), double,
                                std::conditional_t<(... || (sizeof(Ts) == 4)), float, Half>>));

// Whether rows of `row` elements, `stride` apart, can be read N at a time from `data` on.
template <int N, typename T>
bool IsAligned(const T* data, int64_t stride, int64_t row) {
  return reinterpret_cast<uintptr_t>(data) % (sizeof(T) * N) == 0 && stride % N == 0 &&
         row % N == 0;
}

// Loads N elements as WideOf<T>; if fewer than N are `left` in the row, the others are zeros.
template <int N, typename T>
__device__ __forceinline__ void Load(const T* from, int64_t left, bool aligned,
                                     WideOf<T> (&into)[N]) {
  if (aligned) {
    const Vector<T, N> vector = WordAt<N>(from);
    KERNEL_UNROLL for (int i = 0; i < N; ++i) into[i] = Wide(vector.at[i]);
  } else {
    KERNEL_UNROLL for (int i = 0; i < N; ++i) into[i] = i < left ? Wide(from[i]) : WideOf<T>(0);
  }
}

template <int N, typename T>
__device__ __forceinline__ void Store(T* to, int64_t left, bool aligned,
                                      const WideOf<T> (&from)[N]) {
  if (aligned) {
    Vector<T, N> vector;
    KERNEL_UNROLL for (int i = 0; i < N; ++i) vector.at[i] = Narrow<T>(from[i]);
    WordAt<N>(to) = vector;
  } else {
    KERNEL_UNROLL for (int i = 0; i < N; ++i) {
      if (i < left) to[i] = Narrow<T>(from[i]);
    }
  }
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_VECTORS_H_
