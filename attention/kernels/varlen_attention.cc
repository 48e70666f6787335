#include "attention/kernels/varlen_attention.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "base/trace/recorder.h"

namespace moonring::attention {
namespace {

// The kind of a kernel call's span in a trace: numbers of query rows, key rows (columns), tiles and
// heads.
constexpr base::SpanKind CallSpan(const char* name) {
  return {.name = name,
          .category = "tile",
          .numbers = {"rows", "columns", "tiles", "heads"},
          .is_fine = true};
}
constexpr base::SpanKind kTilesForward = CallSpan("tiles forward"),
                         kTilesBackward = CallSpan("tiles backward");

int64_t TileCount(const VarlenTiles& tiles) {
  return static_cast<int64_t>(tiles.query_offsets.size()) - 1;
}

void CheckInputs(const VarlenTiles& tiles) {
  const at::Tensor &q = tiles.q_MHD, &k = tiles.k_NKD, &v = tiles.v_NKD;
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3,
              "varlen attention: expected q [M, H, D], k [N, K, D] and v [N, K, Dv], got q ",
              q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(k.sizes().slice(0, 2) == v.sizes().slice(0, 2),
              "varlen attention: rows or heads of k ", k.sizes(), " and v ", v.sizes(), " differ");
  TORCH_CHECK(q.size(2) == k.size(2), "varlen attention: head dim of q is ", q.size(2), ", of k ",
              k.size(2));
  TORCH_CHECK(q.numel() > 0 && k.numel() > 0 && v.numel() > 0, "varlen attention: nothing in q ",
              q.sizes(), ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(q.size(1) % k.size(1) == 0, "varlen attention: ", q.size(1),
              " query heads are no multiple of ", k.size(1), " kv heads");
  TORCH_CHECK(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
              "varlen attention: dtypes differ: q ", q.scalar_type(), ", k ", k.scalar_type(),
              ", v ", v.scalar_type());
}

// Kernels do not check offsets. Results of rows that no tile has would be undefined, and offsets
// beyond the last row would access memory out of bounds.
void CheckOffsets(const VarlenTiles& tiles) {
  const auto &queries = tiles.query_offsets, &keys = tiles.key_offsets;
  TORCH_CHECK(queries.size() == keys.size() && queries.size() > 1,
              "varlen attention: ", queries.size(), " offsets of queries, ", keys.size(),
              " of keys");
  TORCH_CHECK(queries.front() == 0 && queries.back() == tiles.q_MHD.size(0) && keys.front() == 0 &&
                  keys.back() == tiles.k_NKD.size(0),
              "varlen attention: offsets from ", queries.front(), " to ", queries.back(),
              " and from ", keys.front(), " to ", keys.back(), " for ", tiles.q_MHD.size(0),
              " queries and ", tiles.k_NKD.size(0), " keys");
  for (size_t i = 0; i + 1 < queries.size(); ++i) {
    const int64_t rows = queries[i + 1] - queries[i], of_keys = keys[i + 1] - keys[i];
    TORCH_CHECK(rows > 0 && of_keys > 0, "varlen attention: tile ", i, " has ", rows,
                " queries and ", of_keys, " keys");
    TORCH_CHECK(tiles.kind != TileKind::kBand || of_keys >= rows, "varlen attention: band ", i,
                " has ", rows, " queries and ", of_keys, " keys");
    TORCH_CHECK(tiles.kind == TileKind::kFull || tiles.kind == TileKind::kBand || rows == of_keys,
                "varlen attention: masked tile ", i, " is not square: ", rows, " queries and ",
                of_keys, " keys");
  }
}

void CheckKind(const VarlenAttention& attention, const VarlenTiles& tiles) {
  const int64_t head_dim = std::max(tiles.q_MHD.size(2), tiles.v_NKD.size(2));
  TORCH_CHECK(tiles.kind != TileKind::kBand ||
                  attention.TakesBands(tiles.q_MHD.scalar_type(), head_dim, tiles.score),
              "varlen attention: ", attention.name(), " knows no bands of ",
              tiles.q_MHD.scalar_type(), " with a head dim of ", head_dim);
  TORCH_CHECK(tiles.window >= 0 && (tiles.window == 0 || tiles.kind == TileKind::kBand),
              "varlen attention: a window of ", tiles.window, " on tiles that are no bands");
}

}  // namespace

PartialAttention VarlenAttention::Forward(const VarlenTiles& tiles) const {
  CheckInputs(tiles);
  CheckOffsets(tiles);
  CheckKind(*this, tiles);
  base::TraceSpan span(kTilesForward, {tiles.q_MHD.size(0), tiles.k_NKD.size(0), TileCount(tiles),
                                       tiles.q_MHD.size(1)});
  span.OnDevice(tiles.q_MHD.device());
  return RunForward(tiles);
}

TileGradients VarlenAttention::Backward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                                        const at::Tensor& out_MHD, const at::Tensor& lse_MH) const {
  CheckInputs(tiles);
  CheckOffsets(tiles);
  CheckKind(*this, tiles);
  const std::vector<int64_t> sizes = OutShape(tiles.q_MHD, tiles.v_NKD);
  TORCH_CHECK(dout_MHD.sizes() == sizes && out_MHD.sizes() == sizes,
              "varlen attention: expected dout and out ", at::IntArrayRef(sizes), ", got ",
              dout_MHD.sizes(), " and ", out_MHD.sizes());
  const at::IntArrayRef rows = tiles.q_MHD.sizes().slice(0, 2);
  TORCH_CHECK(lse_MH.sizes() == rows, "varlen attention: expected lse ", rows, ", got ",
              lse_MH.sizes());
  const at::ScalarType type = AccumulateType(tiles.q_MHD.scalar_type());
  TORCH_CHECK(lse_MH.scalar_type() == type, "varlen attention: lse must be ", type, ", got ",
              lse_MH.scalar_type());
  base::TraceSpan span(kTilesBackward, {tiles.q_MHD.size(0), tiles.k_NKD.size(0), TileCount(tiles),
                                        tiles.q_MHD.size(1)});
  span.OnDevice(tiles.q_MHD.device());
  return RunBackward(tiles, dout_MHD, out_MHD, lse_MH);
}

}  // namespace moonring::attention
