#include "attention/kernels/looped_varlen_attention.h"

#include <ATen/ops/empty.h>

namespace moonring::attention {
namespace {

// The rows of tile i.
at::Tensor RowsOfTile(const at::Tensor& rows, const std::vector<int64_t>& offsets, size_t i) {
  return rows.narrow(0, offsets[i], offsets[i + 1] - offsets[i]);
}

Tile TileAt(const VarlenTiles& tiles, size_t i) {
  return {RowsOfTile(tiles.q_MHD, tiles.query_offsets, i),
          RowsOfTile(tiles.k_NKD, tiles.key_offsets, i),
          RowsOfTile(tiles.v_NKD, tiles.key_offsets, i), tiles.kind, tiles.score};
}

at::Tensor Empty(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().dtype(AccumulateType(like.scalar_type())));
}
at::Tensor EmptyLike(const at::Tensor& rows) { return Empty(rows.sizes(), rows); }

}  // namespace

PartialAttention LoopedVarlenAttention::RunForward(const VarlenTiles& tiles) const {
  const at::Tensor out = Empty(OutShape(tiles.q_MHD, tiles.v_NKD), tiles.q_MHD);
  const at::Tensor lse = at::empty(tiles.q_MHD.sizes().slice(0, 2), out.options());
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const PartialAttention part = block_->Forward(TileAt(tiles, i));
    RowsOfTile(out, tiles.query_offsets, i).copy_(part.out_MHD);
    RowsOfTile(lse, tiles.query_offsets, i).copy_(part.lse_MH);
  }
  return {out, lse};
}

TileGradients LoopedVarlenAttention::RunBackward(const VarlenTiles& tiles,
                                                 const at::Tensor& dout_MHD,
                                                 const at::Tensor& out_MHD,
                                                 const at::Tensor& lse_MH) const {
  const TileGradients all{EmptyLike(tiles.q_MHD), EmptyLike(tiles.k_NKD), EmptyLike(tiles.v_NKD)};
  for (size_t i = 0; i + 1 < tiles.query_offsets.size(); ++i) {
    const auto of_tile = [&](const at::Tensor& rows) {
      return RowsOfTile(rows, tiles.query_offsets, i);
    };
    const TileGradients part =
        block_->Backward(TileAt(tiles, i), of_tile(dout_MHD), of_tile(out_MHD), of_tile(lse_MH));
    of_tile(all.dq_MHD).copy_(part.dq_MHD);
    RowsOfTile(all.dk_NKD, tiles.key_offsets, i).copy_(part.dk_NKD);
    RowsOfTile(all.dv_NKD, tiles.key_offsets, i).copy_(part.dv_NKD);
  }
  return all;
}

}  // namespace moonring::attention
