#ifndef MOONRING_KERNELS_SHORT_CONVOLUTION_LAUNCH_H_
#define MOONRING_KERNELS_SHORT_CONVOLUTION_LAUNCH_H_

// Arguments of the kernels in short_convolution.cu. Weights, bias and sums are in fp32, or fp64 if
// x is.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

struct ConvolutionCall {
  Type type;  // of x, y, the halo and their gradients
  int64_t tokens, channels, documents;
  int taps;  // 2, 3 or 4
  bool silu;
  const int64_t* bounds;  // [documents + 1, 2]
  ConstRows x;
  const void* weight;  // [C, W]
  const void* bias;    // or null
  const void* halo;    // [R, C], contiguous, or null
  int64_t halo_rows;
};

void LaunchShortConvolution(const ConvolutionCall& call, void* y, void* stream);

// The number of partial sums for each element of dweight and dbias.
int64_t ConvolutionPartials(const ConvolutionCall& call);

struct ConvolutionGradientCall {
  ConstRows dy;
  void* dx;       // [T, C], contiguous
  void* partial;  // [partials, W + 1, C]: the taps of dweight, then dbias
  void* dhalo;    // [R, C], or null
};

void LaunchShortConvolutionBackward(const ConvolutionCall& call,
                                    const ConvolutionGradientCall& gradients, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SHORT_CONVOLUTION_LAUNCH_H_
