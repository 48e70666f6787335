#ifndef MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_

// BlockAttention on CPUs: fp32 and bf16 by flash_tile.h, which never holds M x N scores; fp64,
// which is for tests, with its scores written out (explicit_block_attention.h).
//
// bf16 rows are multiplied as they are where the CPU can (Bf16Tiles::kBf16), else upcast to fp32.
// Errors against fp64 of one tile, relative, outputs and gradients: 2e-3, or 1e-6.
//
// Bit-exact in the forward pass under any split by heads, for any head dim (asserted by the tests).

#include "attention/block_attention.h"
#include "attention/explicit_block_attention.h"

namespace moonring::attention {

enum class Bf16Tiles { kBf16, kFp32 };

// Whether the CPU has AVX-512 BF16.
bool CanComputeBf16Tiles();

// kBf16 where the CPU can. MOONRING_BF16_TILES=fp32 in the environment asks for kFp32,
// as on a CPU without: for a run that was begun on one.
Bf16Tiles ChooseBf16Tiles();

class CpuBlockAttention final : public BlockAttention {
 public:
  // kBf16 throws where the CPU cannot.
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

#endif  // MOONRING_ATTENTION_CPU_BLOCK_ATTENTION_H_
