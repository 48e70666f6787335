#include "attention/kernels/block_attention.h"

#include <c10/util/Exception.h>

namespace moonring::attention {
namespace {

// Kernels assume that the D elements of a row are contiguous and do not check the last stride.
at::Tensor Prepare(const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor cast = tensor.to(type);
  return cast.stride(-1) == 1 || cast.size(-1) == 1 ? cast : cast.contiguous();
}

void CheckTile(const Tile& tile) {
  const at::Tensor &q = tile.q_MHD, &k = tile.k_NKD, &v = tile.v_NKD;
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3,
              "block attention: expected q [M, H, D], k [N, K, D] and v [N, K, Dv], got q ",
              q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(k.sizes().slice(0, 2) == v.sizes().slice(0, 2),
              "block attention: rows or heads of k ", k.sizes(), " and v ", v.sizes(), " differ");
  TORCH_CHECK(q.size(2) == k.size(2), "block attention: head dim of q is ", q.size(2), ", of k ",
              k.size(2));
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "block attention: dtypes differ: q ", q.scalar_type(), ", k ", k.scalar_type(),
              ", v ", v.scalar_type());
  TORCH_CHECK(q.numel() > 0 && k.numel() > 0 && v.numel() > 0, "block attention: an empty tile: q ",
              q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(q.size(1) % k.size(1) == 0, "block attention: ", q.size(1),
              " query heads are no multiple of ", k.size(1), " kv heads");
  TORCH_CHECK(tile.kind != TileKind::kBand, "block attention: knows no bands");
  TORCH_CHECK(tile.kind == TileKind::kFull || q.size(0) == k.size(0),
              "block attention: a masked tile is square, got ", q.size(0), " queries and ",
              k.size(0), " keys");
}

Tile PrepareTile(const Tile& tile, const BlockAttention& block) {
  CheckTile(tile);
  const at::ScalarType type = block.ComputeType(tile.q_MHD.scalar_type());
  return {Prepare(tile.q_MHD, type), Prepare(tile.k_NKD, type), Prepare(tile.v_NKD, type),
          tile.kind, tile.score};
}

}  // namespace

at::ScalarType AccumulateType(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<int64_t> OutShape(const at::Tensor& q_MHD, const at::Tensor& v_NKD) {
  return {q_MHD.size(0), q_MHD.size(1), v_NKD.size(2)};
}

QueryKeyValue ToAccumulateType(const QueryKeyValue& rows) {
  const at::ScalarType type = AccumulateType(rows.q_THD.scalar_type());
  return {Prepare(rows.q_THD, type), Prepare(rows.k_SKD, type), Prepare(rows.v_SKD, type)};
}

PartialAttention BlockAttention::Forward(const Tile& tile) const {
  return RunForward(PrepareTile(tile, *this));
}

TileGradients BlockAttention::Backward(const Tile& tile, const at::Tensor& dout_MHD,
                                       const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  const Tile ready = PrepareTile(tile, *this);
  const at::ScalarType type = AccumulateType(tile.q_MHD.scalar_type());
  const std::vector<int64_t> wanted = OutShape(ready.q_MHD, ready.v_NKD);
  TORCH_CHECK(dout_MHD.sizes() == wanted && out_MHD.sizes() == wanted,
              "block attention: expected dout and out ", at::IntArrayRef(wanted), ", got ",
              dout_MHD.sizes(), " and ", out_MHD.sizes());
  TORCH_CHECK(lse_MH.sizes() == ready.q_MHD.sizes().slice(0, 2), "block attention: expected lse ",
              ready.q_MHD.sizes().slice(0, 2), ", got ", lse_MH.sizes());
  TORCH_CHECK(lse_MH.scalar_type() == type, "block attention: lse must be ", type, ", got ",
              lse_MH.scalar_type());
  return RunBackward(ready, Prepare(dout_MHD, type), Prepare(out_MHD, type), lse_MH);
}

}  // namespace moonring::attention
