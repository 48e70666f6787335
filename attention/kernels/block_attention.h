#ifndef MOONRING_ATTENTION_KERNELS_BLOCK_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_BLOCK_ATTENTION_H_

// Attention of one tile: a range of queries against a range of keys (tile.h). This is the interface
// that each family of kernels implements.
//
//   scores     Z = scale Q K^T;  S = Z, or softcap tanh(Z / softcap) where there is a softcap;
//              then the mask of the tile's kind
//   forward    lse = logsumexp_row(S);  out = softmax(S) V      over this tile's keys
//   backward   from the GLOBAL out and lse of the query rows, after all tiles were merged:
//              P = exp(S - lse);  delta = rowsum(dout * out);  dS = P (dout V^T - delta)
//              dZ = dS, or dS (1 - (S / softcap)^2);
//              dv = P^T dout;  dq = scale dZ K;  dk = scale dZ^T Q
//              With the global out and lse, the sums over the tiles are the exact gradients. The
//              lse of single tiles is not kept.
//
// Shapes: q, dq [M, H, D]; k, dk [N, K, D]; v, dv [N, K, Dv]; out, dout [M, H, Dv]; lse [M, H]. Dv
// may differ from D but equals it in most models; comments that mention only D assume Dv = D.
// Strided views are allowed. The M rows are queries, the N rows are keys; query head h reads kv
// head h / (H / K). dk and dv are summed over the query heads of a kv head.
//
// Precision: computed and returned in fp32 for 16-bit and fp32 inputs, in fp64 for fp64. An
// implementation may use bf16 directly (ComputeType): then both factors of each product are bf16, P
// and dS included, and all sums, the softmax and the results are fp32.
//
// Rows: every query of a tile attends to at least one key (tile.h), so lse is finite wherever the
// inputs are. M = 0 or N = 0 is refused, since some kernels crash the process on it. Safe to call
// from several threads at once. Cost: M N H (2 D + 2 Dv) flops forward, M N H (6 D + 4 Dv)
// backward, half of that for masked tiles.

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "attention/kernels/tile.h"

namespace moonring::attention {

// The dtype of partial results and sums: fp64 for fp64, fp32 for all others.
at::ScalarType AccumulateType(at::ScalarType type);

// [M, H, Dv]: the shape of the output for these queries and values.
std::vector<int64_t> OutShape(const at::Tensor& q_MHD, const at::Tensor& v_NKD);

// A view of the rows of `range`.
inline at::Tensor RowsOfRange(const at::Tensor& rows, const RowRange& range) {
  return rows.narrow(0, range.begin, range.rows());
}

// Queries [T, H, D], and the keys and values that they attend to, [S, K, D] and [S, K, Dv]; or the
// gradients of these.
struct QueryKeyValue {
  at::Tensor q_THD;
  at::Tensor k_SKD;
  at::Tensor v_SKD;
};

// Converts to AccumulateType with a last stride of 1. Tensors that already are so are not copied.
QueryKeyValue ToAccumulateType(const QueryKeyValue& rows);

// How the dot product of a query and a key becomes their score.
struct ScoreFunction {
  double scale = 1.0;
  double softcap = 0.0;  // 0: none

  // S = cap Y, where Y = tanh(scale / cap Q K^T); without a softcap Y = scale Q K^T and cap is 1.
  double cap() const { return softcap != 0.0 ? softcap : 1.0; }
};

struct Tile {
  at::Tensor q_MHD;
  at::Tensor k_NKD;
  at::Tensor v_NKD;
  TileKind kind = TileKind::kFull;
  ScoreFunction score;
};

struct PartialAttention {
  at::Tensor out_MHD;
  at::Tensor lse_MH;
};

struct TileGradients {
  at::Tensor dq_MHD;
  at::Tensor dk_NKD;
  at::Tensor dv_NKD;
};

class BlockAttention {
 public:
  virtual ~BlockAttention() = default;

  virtual absl::string_view name() const = 0;

  // The dtype in which the kernel computes for inputs of dtype `input`.
  virtual at::ScalarType ComputeType(at::ScalarType input) const { return AccumulateType(input); }

  // Compute the tile. They throw on an empty tile, mismatched shapes or dtypes, H that is not a
  // multiple of K, or a masked tile that is not square.
  PartialAttention Forward(const Tile& tile) const;
  TileGradients Backward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                         const at::Tensor& lse_MH) const;

 private:
  // The implementations. Inputs have been checked and have a last stride of 1. The tile's tensors
  // are in ComputeType, all others in AccumulateType.
  virtual PartialAttention RunForward(const Tile& tile) const = 0;
  virtual TileGradients RunBackward(const Tile& tile, const at::Tensor& dout_MHD,
                                    const at::Tensor& out_MHD, const at::Tensor& lse_MH) const = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_BLOCK_ATTENTION_H_
