#ifndef MOONRING_ATTENTION_KERNELS_DEVICE_TILE_RUNNER_H_
#define MOONRING_ATTENTION_KERNELS_DEVICE_TILE_RUNNER_H_

// Selects the fastest exact attention kernels for a device.

#include <memory>

#include <c10/core/Device.h>

#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/tile_runner.h"

namespace moonring::attention {

// Returns the runner for a device. CPU: a fused kernel computes tile after tile, in several
// threads. CUDA: ragged (varlen) calls of fused kernels (cuda_varlen_attention.h). Other devices:
// the reference implementation, with materialized scores in fp64.
std::shared_ptr<const TileRunner> DeviceTileRunner(const c10::Device& device);

// As the function above, with a given choice between the CUDA kernels.
std::shared_ptr<const TileRunner> ChosenTileRunner(const c10::Device& device,
                                                   const KernelChoice& choice);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_DEVICE_TILE_RUNNER_H_
