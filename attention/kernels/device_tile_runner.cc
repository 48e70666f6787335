#include "attention/kernels/device_tile_runner.h"

#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/reference_block_attention.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/varlen_tile_runner.h"

namespace moonring::attention {

std::shared_ptr<const TileRunner> DeviceTileRunner(const c10::Device& device) {
  return ChosenTileRunner(device, {});
}

std::shared_ptr<const TileRunner> ChosenTileRunner(const c10::Device& device,
                                                   const KernelChoice& choice) {
  if (device.is_cpu())
    return std::make_shared<ThreadedTileRunner>(std::make_shared<CpuBlockAttention>());
  if (device.is_cuda())
    return std::make_shared<VarlenTileRunner>(std::make_shared<CudaVarlenAttention>(choice));
  return std::make_shared<ThreadedTileRunner>(std::make_shared<ReferenceBlockAttention>());
}

}  // namespace moonring::attention
