#ifndef MOONRING_KERNELS_DELTA_SCAN_LAUNCH_H_
#define MOONRING_KERNELS_DELTA_SCAN_LAUNCH_H_

// Arguments of the kernels in delta_scan.cu: the tensors of delta_scan.h in fp32.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct DeltaScanCall {
  int64_t documents, heads, width, keys;  // width: d_v; keys: d_k, at most 256
  int64_t rounds;
  const int64_t* round_begin;                           // [rounds + 1]
  const float *a, *b;                                   // [N, H, 64, keys]
  float* written;                                       // [N, H, 64, width], or null
  const float* added;                                   // [N, H, width, keys], or null
  const float* decay;                                   // [N, H, 1, keys or 1]
  int64_t decay_of_chunk, decay_of_head, decay_of_key;  // strides; decay_of_key is 0 or 1
  float* state;                                         // [D, H, width, keys]
  float* states;                                        // [N, H, width, keys]
  bool backward;
  bool tf32;  // products in TF32 on tensor cores
};

// Launches nothing if there are no documents or no rounds.
void LaunchDeltaScan(const DeltaScanCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_DELTA_SCAN_LAUNCH_H_
