#ifndef MOONRING_ATTENTION_KERNELS_CPU_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_CPU_BLOCK_ATTENTION_H_

// BlockAttention on CPUs. fp32 and bf16 use flash_tile.h, which never stores M x N scores; fp64,
// which is for tests, materializes its scores (explicit_block_attention.h).
//
// bf16 rows are multiplied directly where the CPU can do so (Bf16Tiles::kBf16), else converted to
// fp32. Relative errors of one tile against fp64, for outputs and gradients: 2e-3 with kBf16, 1e-6
// with kFp32.
//
// The forward's results are bit-equal however the heads are split over calls, for any head dim
// (checked by tests).

#include "attention/kernels/block_attention.h"
#include "attention/kernels/explicit_block_attention.h"

namespace moonring::attention {

enum class Bf16Tiles { kBf16, kFp32 };

// Whether the CPU has AVX-512 BF16.
bool CanComputeBf16Tiles();

// kBf16 where the CPU supports it. MOONRING_BF16_TILES=fp32 in the environment selects kFp32
// anyway, so that a run that was started on a CPU without bf16 products can be reproduced.
Bf16Tiles ChooseBf16Tiles();

class CpuBlockAttention final : public BlockAttention {
 public:
  // Throws for kBf16 where the CPU does not support it.
  explicit CpuBlockAttention(Bf16Tiles tiles = ChooseBf16Tiles());
  at::ScalarType ComputeType(at::ScalarType input) const override;
  absl::string_view name() const override { return "cpu"; }

 private:
  PartialAttention RunForward(const Tile& tile) const override;
  TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) const override;

  Bf16Tiles tiles_;
  ExplicitBlockAttention explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_CPU_BLOCK_ATTENTION_H_
