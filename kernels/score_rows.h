#ifndef MOONRING_KERNELS_SCORE_ROWS_H_
#define MOONRING_KERNELS_SCORE_ROWS_H_

// The steps between the products of attention with materialized scores (operators
// moonring::score_rows and moonring::score_rows_backward), for products of 16-bit numbers with sums
// in fp32: forward from q k^T to the p of p v, backward from q k^T and dout v^T to the p and ds
// that the gradients are products of:
//
//   z = scale x, or softcap tanh(scale x / softcap) where there is a softcap;  x = q . k
//   forward    e = exp(z - max z);  sum = sum e;  lse = max z + log sum;  p <- e, in 16 bits
//              (the row's out is p v / sum: numbers up to 1 lose less to 16 bits than shares do)
//   backward   p <- exp(z - lse);  ds <- p (y - delta) (1 - (z / softcap)^2);  y = dout . v
//              (dq = scale ds k, dk = scale ds^T q)
//
// over the keys that a row sees; p and ds are 0 elsewhere. A tile's row `seen` [4] of int64 holds
// (m, n, low, high): query i sees key j where i < m, j < n, i + low <= j <= i + high. A row that
// sees nothing has p 0, sum 1 and lse -inf. NaN among what it sees makes its sum and lse NaN.
//
// Shapes: x, y [B, H, M, N] in fp32, of B tiles and H heads, rows all equally far apart; p, ds the
// same in bf16 or fp16, in memory of their own or in that of x and y (NarrowOver), which are then
// overwritten; sum, lse, delta [B, H, M] in fp32. Any size, zero among them. Bytes a score: forward
// 4 read (8 where N is more than 8,192) and 2 written, backward 8 and 4; fast where rows begin at
// multiples of 32 bytes and have room up to one, as ScoreMemory gives them. Sums have a fixed
// order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kScoreRows[] = "moonring::score_rows";

struct ScoreCurve {
  double scale = 1.0;
  double softcap = 0.0;  // 0: none
};

// Uninitialised fp32 [B, H, M, N].
at::Tensor ScoreMemory(at::IntArrayRef sizes, const at::TensorOptions& options);

// [B, H, M, N] of a 16-bit dtype, whose row begins where that of `wide` does.
at::Tensor NarrowOver(const at::Tensor& wide_BHMN, at::ScalarType dtype);

// Written into.
struct ScoreRowSums {
  at::Tensor sum_BHM, lse_BHM;
};

void ScoreRows(const at::Tensor& x_BHMN, const at::Tensor& seen_B4, const ScoreCurve& curve,
               const at::Tensor& p_BHMN, const ScoreRowSums& sums);

struct ScoreRowGradients {
  at::Tensor p_BHMN, ds_BHMN;
};

void ScoreRowsBackward(const at::Tensor& x_BHMN, const at::Tensor& y_BHMN,
                       const at::Tensor& lse_BHM, const at::Tensor& delta_BHM,
                       const at::Tensor& seen_B4, const ScoreCurve& curve,
                       const ScoreRowGradients& into);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_SCORE_ROWS_H_
