#ifndef MOONRING_KERNELS_DELTA_SCORES_LAUNCH_H_
#define MOONRING_KERNELS_DELTA_SCORES_LAUNCH_H_

// Arguments of the kernels in delta_scores.cu: the tensors of delta_scores.h; `blocks` = chunks x
// heads.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct DeltaScoresCall {
  int64_t blocks;
  float *query, *key;  // query null: not computed
  const float *g, *beta;
  float *inverse, *scaled;
};

struct DeltaScoresBackwardCall {
  int64_t blocks;
  float *p, *r;
  const float *query, *key, *g, *beta;
  float *dbeta, *dg;
};

struct DeltaGradientsCall {
  int64_t blocks, keys, width;
  float *dq, *dk, *dr, *dbeta, *dg;
  const float *d_start_q, *d_start_k, *d_end_k, *q, *k, *unscaled, *states, *d_states, *beta,
      *from_start, *to_end;
};

// In each call `blocks` is at least 1.
void LaunchDeltaScores(const DeltaScoresCall& call, void* stream);
void LaunchDeltaScoresBackward(const DeltaScoresBackwardCall& call, void* stream);
void LaunchDeltaGradients(const DeltaGradientsCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_DELTA_SCORES_LAUNCH_H_
