#ifndef MOONRING_KERNELS_DELTA_PACK_LAUNCH_H_
#define MOONRING_KERNELS_DELTA_PACK_LAUNCH_H_

// Arguments of the kernels in delta_pack.cu: the tensors of delta_pack.h.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

// A tensor [T, H, X] whose last dim is contiguous.
template <typename Data>
struct TokensAndHeads {
  Data* data = nullptr;
  int64_t token_stride = 0, head_stride = 0;
};

struct DeltaPackCall {
  Type type;  // of q, k and v
  int64_t chunks, heads, key_heads, keys, width;
  const int64_t* token_of_slot;
  TokensAndHeads<const void> q, k, v;  // q.data is null if there is no q
  TokensAndHeads<const void> g, beta;  // fp32 [T, H]
  float scale, eps;
  bool normalize;
  float *packed_q, *start_q;  // null if there is no q
  float *packed_k, *start_k, *end_k, *packed_v, *packed_g, *packed_beta, *from_start, *to_end;
};

struct DeltaPackRowsCall {
  Type type;
  int64_t chunks, heads, width;
  const int64_t* token_of_slot;
  TokensAndHeads<const void> rows;
  float* packed;
};

struct DeltaUnpackCall {
  Type type;  // of x and of the rows
  int64_t chunks;
  int64_t heads;   // of `rows`
  int64_t groups;  // packed heads per head of `rows`
  int64_t width;
  const float* packed;  // [N, heads x groups, 64, width]
  const int64_t* token_of_slot;
  TokensAndHeads<const void> x;  // data null: no rows were normalized
  float scale, eps;
  TokensAndHeads<void> rows;
};

// Each call must have something to process: an empty grid cannot be launched.
void LaunchDeltaPack(const DeltaPackCall& call, void* stream);
void LaunchDeltaPackRows(const DeltaPackRowsCall& call, void* stream);
void LaunchDeltaUnpack(const DeltaUnpackCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_DELTA_PACK_LAUNCH_H_
