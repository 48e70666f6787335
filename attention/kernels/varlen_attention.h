#ifndef MOONRING_ATTENTION_KERNELS_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_VARLEN_ATTENTION_H_

// Many tiles of one kind in one call: the interface for kernels that accept ragged lists of
// sequences (varlen).
//
// Tile i consists of query rows [query_offsets[i], query_offsets[i + 1]) against key rows
// [key_offsets[i], key_offsets[i + 1]); kinds of tiles are those of tile.h, and equations those of
// block_attention.h. Tiles follow one another without a gap from row 0 to the last row, and none is
// empty on either side, so every row of the results is written.
//
// Shapes, for M query rows, N key rows, H query heads and K kv heads: q, dq [M, H, D]; k, dk [N, K,
// D]; v, dv [N, K, Dv]; out, dout [M, H, Dv]; lse [M, H], natural logarithm. Strides are arbitrary.
// q, k, v have one dtype; out, dq, dk, dv are returned in the dtype that the kernel writes, either
// the inputs' or AccumulateType; lse is in AccumulateType. Cost: that of the tiles.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "attention/kernels/block_attention.h"
#include "attention/kernels/tile.h"

namespace moonring::attention {

// A call's offsets as tensors on the kernel's device. Calls with the same offsets share one object.
struct DeviceOffsets {
  at::Tensor queries, keys;  // int32 [tiles + 1]
  int64_t longest_queries = 0, longest_keys = 0;
  at::Tensor reversal, lse_places;  // for memory-efficient attention (cuda_varlen_attention.cc)
  std::vector<std::shared_ptr<DeviceOffsets>> of_parts;  // one object per kernel call, where
                                                         // several kernels compute the tiles
                                                         // (varlen_parts.h)
};

struct VarlenTiles {
  at::Tensor q_MHD;
  at::Tensor k_NKD;
  at::Tensor v_NKD;
  std::vector<int64_t> query_offsets, key_offsets;  // tiles + 1 numbers, from 0 to M and to N
  TileKind kind = TileKind::kFull;
  ScoreFunction score;
  int64_t window = 0;  // of bands; 0: none
  // The offsets on the device, filled by the first call that needs them. Null: each call makes new
  // ones.
  std::shared_ptr<DeviceOffsets> on_device;
};

class VarlenAttention {
 public:
  virtual ~VarlenAttention() = default;

  virtual absl::string_view name() const = 0;

  // Whether tiles may be bands (tile.h). `head_dim`: the greater of the keys' and the values' head
  // dims.
  virtual bool TakesBands(at::ScalarType type, int64_t head_dim, const ScoreFunction& score) const {
    return false;
  }

  // Compute all tiles. They throw where shapes, dtypes or offsets do not match, on an empty tile,
  // on a masked tile that is not square (except bands), and on a band with fewer keys than queries.
  PartialAttention Forward(const VarlenTiles& tiles) const;
  TileGradients Backward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                         const at::Tensor& out_MHD, const at::Tensor& lse_MH) const;

 private:
  // The inputs have been checked.
  virtual PartialAttention RunForward(const VarlenTiles& tiles) const = 0;
  virtual TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                                    const at::Tensor& out_MHD, const at::Tensor& lse_MH) const = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_VARLEN_ATTENTION_H_
