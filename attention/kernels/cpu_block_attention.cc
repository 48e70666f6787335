#include "attention/kernels/cpu_block_attention.h"

#include <cstdlib>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "attention/kernels/flash_tile.h"

namespace moonring::attention {
namespace {

template <typename Scalar>
struct ElementOf {
  using Type = Scalar;
};
template <>
struct ElementOf<at::BFloat16> {
  using Type = Bf16;  // the same bits
};

template <typename Scalar>
StridedRows<typename ElementOf<Scalar>::Type> StridedRowsOf(const at::Tensor& rows) {
  return {reinterpret_cast<const typename ElementOf<Scalar>::Type*>(rows.const_data_ptr<Scalar>()),
          rows.stride(0), rows.stride(1)};
}

template <typename Scalar>
FlashTile<typename ElementOf<Scalar>::Type> FlashTileOf(const Tile& tile) {
  return {.q = StridedRowsOf<Scalar>(tile.q_MHD),
          .k = StridedRowsOf<Scalar>(tile.k_NKD),
          .v = StridedRowsOf<Scalar>(tile.v_NKD),
          .queries = tile.q_MHD.size(0),
          .keys = tile.k_NKD.size(0),
          .heads = tile.q_MHD.size(1),
          .kv_heads = tile.k_NKD.size(1),
          .head_dim = tile.q_MHD.size(2),
          .value_dim = tile.v_NKD.size(2),
          .kind = tile.kind,
          .scale = static_cast<float>(tile.score.scale),
          .softcap = static_cast<float>(tile.score.softcap)};
}

// Calls `body` with the tile in the dtype of its rows.
template <typename Body>
void WithFlashTile(const Tile& tile, const Body& body) {
  if (tile.q_MHD.scalar_type() == at::kBFloat16) return body(FlashTileOf<at::BFloat16>(tile));
  body(FlashTileOf<float>(tile));
}

bool IsDouble(const Tile& tile) { return tile.q_MHD.scalar_type() == at::kDouble; }

}  // namespace

bool CanComputeBf16Tiles() { return HasBf16Tiles(); }

Bf16Tiles ChooseBf16Tiles() {
  const char* asked = std::getenv("MOONRING_BF16_TILES");
  const bool upcast = asked != nullptr && absl::string_view(asked) == "fp32";
  return HasBf16Tiles() && !upcast ? Bf16Tiles::kBf16 : Bf16Tiles::kFp32;
}

CpuBlockAttention::CpuBlockAttention(Bf16Tiles tiles) : tiles_(tiles) {
  TORCH_CHECK(tiles == Bf16Tiles::kFp32 || HasBf16Tiles(),
              "attention: bf16 tiles need AVX-512 BF16, which this CPU does not have");
}

at::ScalarType CpuBlockAttention::ComputeType(at::ScalarType input) const {
  return input == at::kBFloat16 && tiles_ == Bf16Tiles::kBf16 ? at::kBFloat16
                                                              : AccumulateType(input);
}

PartialAttention CpuBlockAttention::RunForward(const Tile& tile) const {
  if (IsDouble(tile)) return explicit_.Forward(tile);
  const at::TensorOptions options = tile.q_MHD.options().dtype(at::kFloat);
  const PartialAttention part{at::empty(OutShape(tile.q_MHD, tile.v_NKD), options),
                              at::empty(tile.q_MHD.sizes().slice(0, 2), options)};
  WithFlashTile(tile, [&](const auto& flash) {
    FlashForward(flash, part.out_MHD.mutable_data_ptr<float>(),
                 part.lse_MH.mutable_data_ptr<float>());
  });
  return part;
}

TileGradients CpuBlockAttention::RunBackward(const Tile& tile, const at::Tensor& dout_MHD,
                                             const at::Tensor& out_MHD,
                                             const at::Tensor& lse_MH) const {
  if (IsDouble(tile)) return explicit_.Backward(tile, dout_MHD, out_MHD, lse_MH);
  const auto like = [](const at::Tensor& rows) {
    return at::empty(rows.sizes(), rows.options().dtype(at::kFloat));
  };
  const TileGradients gradients{like(tile.q_MHD), like(tile.k_NKD), like(tile.v_NKD)};
  WithFlashTile(tile, [&](const auto& flash) {
    FlashBackward(flash, StridedRowsOf<float>(dout_MHD), StridedRowsOf<float>(out_MHD),
                  StridedRowsOf<float>(lse_MH), gradients.dq_MHD.mutable_data_ptr<float>(),
                  gradients.dk_NKD.mutable_data_ptr<float>(),
                  gradients.dv_NKD.mutable_data_ptr<float>());
  });
  return gradients;
}

}  // namespace moonring::attention
