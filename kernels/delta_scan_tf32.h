#ifndef MOONRING_KERNELS_DELTA_SCAN_TF32_H_
#define MOONRING_KERNELS_DELTA_SCAN_TF32_H_

// Device functions of delta_scan.cu's scan on tensor cores, for d_k of 64 and 128. A warp computes
// the rows of X of 16 tokens, and 32 channels (columns) of M. Each number of A and of B is read by
// one thread, from memory into its registers. Tokens, rows and channels are assigned to a
// fragment's rows and columns so that a thread's numbers are four neighbours, read at once. With
// group = lane / 4 and of_group = lane % 4 (g and t in tensor_cores.h) a lane has
//
//   A       tokens group and group + 8 of the warp's 16; of each 16 channels the four that begin at
//           channel 4 of_group
//   B       tokens of_group and of_group + 4 of each 8; of the warp's 32 channels the four that
//           begin at channel 16 (group % 2) + 4 (group / 2)
//   X       the same tokens as A; the four rows v that begin at row 4 of_group
//   M       rows v = 2 group and v = 2 group + 1; of each half of the warp's 32 channels the four
//           that begin at channel 4 of_group

#include "kernels/language.h"
#include "kernels/tensor_cores.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kTokens = 64;  // per chunk
constexpr int kRows = 16;    // of M, per block
constexpr int kPass = 128;   // channels
// Floats from a row of M, or of X, to the next in shared memory; chosen to avoid bank conflicts.
constexpr int kHeldStride = kPass + 16, kXStride = kRows + 8;

// The position of a thread in the tiles.
template <int kKeys>
struct Tf32Place {
  int warp, group, of_group, width, first_row;
  __device__ Tf32Place(int width, int first_row)
      : warp(static_cast<int>(threadIdx.x) / kWarp),
        group(static_cast<int>(threadIdx.x) % kWarp / 4),
        of_group(static_cast<int>(threadIdx.x) % 4),
        width(width),
        first_row(first_row) {}
  // The thread's token of A and of X; r is 0 or 1.
  __device__ int token(int r) const { return warp * 16 + group + r * 8; }
};

// Loads four numbers, or zeros if they are out of range.
__device__ __forceinline__ void LoadFour(const float* from, bool are_there, float (&into)[4]) {
  Vector<float, 4> word = {};
  if (are_there) word = WordAt<4>(from);
  KERNEL_UNROLL for (int i = 0; i < 4; ++i) into[i] = word.at[i];
}
// Stores four numbers to global memory, unless they are out of range.
__device__ __forceinline__ void StoreFour(float* to, bool are_there, const float (&from)[4]) {
  if (!are_there) return;
#ifdef __CUDACC__
  // For a Vector nvcc would emit four stores here.
  __stcg(reinterpret_cast<float4*>(to), make_float4(from[0], from[1], from[2], from[3]));
#else
  Store<4>(to, 4, /*aligned=*/true, from);
#endif
}

// A thread's section of M: [2 r + half][channel of four], where r is a row and half one of its two
// groups of four channels.
using PartOfM = float[4][4];

// Calls each(2 r + half, row v, number of the group of 16 channels, index in that group of the
// first of the four channels).
template <int kKeys, typename Each>
__device__ __forceinline__ void ForFours(const Tf32Place<kKeys>& place, const Each& each) {
  KERNEL_UNROLL for (int i = 0; i < 4; ++i)
      each(i, 2 * place.group + i / 2, place.warp * 2 + i % 2, place.of_group * 4);
}

// Loads a thread's section of M from `rows`: the block's rows of M, or of a tensor of the same
// shape.
template <int kKeys>
__device__ __forceinline__ void LoadM(const Tf32Place<kKeys>& place, const float* rows,
                                      PartOfM& into) {
  ForFours(place, [&](int i, int v, int sixteen, int four) {
    const int k = sixteen * 16 + four;
    LoadFour(rows + v * kKeys + k, place.first_row + v < place.width && k < kKeys, into[i]);
  });
}
template <int kKeys>
__device__ __forceinline__ void StoreM(const Tf32Place<kKeys>& place, const PartOfM& from,
                                       float* rows) {
  ForFours(place, [&](int i, int v, int sixteen, int four) {
    const int k = sixteen * 16 + four;
    StoreFour(rows + v * kKeys + k, place.first_row + v < place.width && k < kKeys, from[i]);
  });
}

// The offset in shared memory of 16 channels (number `sixteen`) of row v. In every other pair of
// rows (`odd`: v / 2 % 2) neighbouring groups of 16 are swapped, which avoids bank conflicts.
__device__ __forceinline__ int HeldPlace(int v, int odd, int sixteen) {
  return v * kHeldStride + (sixteen ^ odd) * 16;
}

template <int kKeys>
__device__ __forceinline__ void HoldM(const Tf32Place<kKeys>& place, const PartOfM& from,
                                      float* held) {
  ForFours(place, [&](int i, int v, int sixteen, int four) {
    float numbers[4];
    KERNEL_UNROLL for (int j = 0; j < 4; ++j) numbers[j] = Tf32(-from[i][j]);
    float* const to = held + HeldPlace(v, place.group % 2, sixteen) + four;
    Store<4>(to, 4, /*aligned=*/true, numbers);
  });
}

// The numbers of A or of B that a thread loads at a time: [step][token][channel of four].
using Piece = float[4][2][4];

// Loads 64 channels of a chunk's A, 16 per step.
template <int kKeys>
__device__ __forceinline__ void LoadA(const Tf32Place<kKeys>& place, int piece, const float* a,
                                      Piece& into) {
  KERNEL_UNROLL for (int r = 0; r < 2; ++r) {
    const float* const row = a + place.token(r) * kKeys;
    KERNEL_UNROLL for (int s = 0; s < 4; ++s) {
      const int k = piece * 64 + s * 16 + place.of_group * 4;
      LoadFour(row + k, k < kKeys, into[s][r]);
    }
  }
}

// Loads 32 tokens of a chunk's B, 8 per step.
template <int kKeys>
__device__ __forceinline__ void LoadB(const Tf32Place<kKeys>& place, int piece, const float* b,
                                      Piece& into) {
  const int k = place.warp * 32 + place.group % 2 * 16 + place.group / 2 * 4;
  const float* row = b + (piece * 32 + place.of_group) * kKeys + k;
  KERNEL_UNROLL for (int s = 0; s < 4; ++s) {
    KERNEL_UNROLL for (int r = 0; r < 2; ++r) {
      LoadFour(row, k < kKeys, into[s][r]);
      row += 4 * kKeys;
    }
  }
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_DELTA_SCAN_TF32_H_
