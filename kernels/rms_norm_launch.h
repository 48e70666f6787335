#ifndef MOONRING_KERNELS_RMS_NORM_LAUNCH_H_
#define MOONRING_KERNELS_RMS_NORM_LAUNCH_H_

// Arguments of the kernels in rms_norm.cu. Weights, 1/sqrt(..) and sums are in fp32, or fp64 if x
// is. Dtypes of (x, y): both fp64, both fp32, both bf16, both fp16, or fp32 with bf16 or fp16 in
// either order.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct RmsNormForwardCall {
  Type x_type, y_type;
  int64_t rows, width;
  ConstRows x;
  ConstRows added;         // data null: nothing is added
  bool added_is_y = true;  // whether `added` has y's type; otherwise it has x's
  double added_scale = 1;
  double eps;
  const void* weight;
  void* sum;  // x + added_scale added, in x's type, contiguous; null if nothing is added
  void* y;    // contiguous
  void* rstd;
};

struct RmsNormBackwardCall {
  Type x_type, y_type;
  int64_t rows, width;
  ConstRows dy, x;  // x: the input of the norm (after the sum)
  ConstRows dsum;   // in x's type: added to dx; data null: nothing
  const void *weight, *rstd;
  double added_scale = 1;
  bool added_is_y = true;
  void* dx;      // contiguous, or null
  void* dadded;  // added_scale dx, in the type of `added`; or null
  void* dweight;
  void* partial;  // [RmsNormPartials, width]; null, like dweight, if not requested
};

void LaunchRmsNorm(const RmsNormForwardCall& call, void* stream);
int64_t RmsNormPartials(int64_t rows, int64_t width, int64_t number_bytes);  // bytes of one sum
void LaunchRmsNormBackward(const RmsNormBackwardCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_RMS_NORM_LAUNCH_H_
