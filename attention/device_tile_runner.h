#ifndef MOONRING_ATTENTION_DEVICE_TILE_RUNNER_H_
#define MOONRING_ATTENTION_DEVICE_TILE_RUNNER_H_

// The fastest exact kernels that are there for a device.

#include <memory>

#include <c10/core/Device.h>

#include "attention/kernel_choice.h"
#include "attention/tile_runner.h"

namespace moonring::attention {

// CPU: a fused kernel, tile by tile over threads. CUDA: ragged calls of fused kernels, whose header
// says what of them has not run on a GPU (cuda_varlen_attention.h). Elsewhere: the reference,
// scores written out in fp64.
std::shared_ptr<const TileRunner> DeviceTileRunner(const c10::Device& device);

// The same, with a choice between CUDA's kernels.
std::shared_ptr<const TileRunner> ChosenTileRunner(const c10::Device& device,
                                                   const KernelChoice& choice);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_DEVICE_TILE_RUNNER_H_
