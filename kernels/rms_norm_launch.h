#ifndef MOONRING_KERNELS_RMS_NORM_LAUNCH_H_
#define MOONRING_KERNELS_RMS_NORM_LAUNCH_H_

// What rms_norm.cu is given. Weights, 1/sqrt(..) and sums are in fp32, or fp64 where x is. (x, y):
// fp64 with fp64; else any of fp32, bf16, fp16 with itself, and fp32 with any of them, either way.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct RmsNormForwardCall {
  Type x_type, y_type;
  int64_t rows, width;
  ConstRows x;
  ConstRows added;         // data null: nothing is
  bool added_is_y = true;  // in y's type, else in x's
  double added_scale = 1;
  double eps;
  const void* weight;
  void* sum;  // x + added_scale added, in x's type and without gaps; null where nothing is added
  void* y;    // without gaps
  void* rstd;
};

struct RmsNormBackwardCall {
  Type x_type, y_type;
  int64_t rows, width;
  ConstRows dy, x;  // x: what was normed, so the sum where there was one
  ConstRows dsum;   // in x's type: what is added to dx; data null: nothing
  const void *weight, *rstd;
  double added_scale = 1;
  bool added_is_y = true;
  void* dx;      // without gaps, or null
  void* dadded;  // added_scale dx, in what was added's type; or null
  void* dweight;
  void* partial;  // [RmsNormPartials, width]; null, as dweight is, where that is not wanted
};

void LaunchRmsNorm(const RmsNormForwardCall& call, void* stream);
int64_t RmsNormPartials(int64_t rows, int64_t width, int64_t number_bytes);  // bytes: of one sum
void LaunchRmsNormBackward(const RmsNormBackwardCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_RMS_NORM_LAUNCH_H_
