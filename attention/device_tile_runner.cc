#include "attention/device_tile_runner.h"

#include "attention/cpu_block_attention.h"
#include "attention/cuda_varlen_attention.h"
#include "attention/reference_block_attention.h"
#include "attention/threaded_tile_runner.h"
#include "attention/varlen_tile_runner.h"

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
