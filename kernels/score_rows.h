#ifndef MOONRING_KERNELS_SCORE_ROWS_H_
#define MOONRING_KERNELS_SCORE_ROWS_H_

// The softmax steps between the matmuls of attention with materialized scores (operators
// moonring::score_rows and moonring::score_rows_backward), for matmuls with 16-bit inputs and fp32
// outputs. The forward computes from q k^T the p of the matmul p v. The backward computes from q
// k^T and dout v^T the p and ds of the gradients' matmuls:
//
//   z = scale x, or softcap tanh(scale x / softcap) with a softcap;  x = q . k
//   forward    e = exp(z - max z);  sum = sum e;  lse = max z + log sum;  p <- e, in 16 bits
//              (the row's out is p v / sum: rounding e, at most 1, to 16 bits loses less precision
//              than rounding e / sum)
//   backward   p <- exp(z - lse);  ds <- p (y - delta) (1 - (z / softcap)^2);  y = dout . v
//              (dq = scale ds k, dk = scale ds^T q)
//
// with delta = dout . out of the row, over the keys that a row attends to; p and ds are 0
// elsewhere. `seen` (int64 [B, 4]) has for each tile four numbers (m, n, low, high): query i
// attends to key j if i < m, j < n, i + low <= j <= i + high. A row that attends to nothing has p
// 0, sum 1 and lse -inf. A NaN among its scores makes its sum and lse NaN.
//
// Shapes: x, y [B, H, M, N] in fp32, for B tiles of M queries and N keys and H heads, with a
// constant stride between rows; p, ds the same in bf16 or fp16, in separate memory or in that of x
// and y (NarrowOver), which is then overwritten; sum, lse, delta [B, H, M] in fp32. Sizes may be
// zero. Bytes per score: forward 4 read (8 if N is more than 8,192) and 2 written, backward 8 read
// and 4 written. It is fast if rows begin at multiples of 32 bytes and there is room to extend each
// row to a multiple of 32 bytes, as for ScoreMemory. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kScoreRows[] = "moonring::score_rows";

struct ScoreCurve {
  double scale = 1.0;
  double softcap = 0.0;  // 0: none
};

// Uninitialized fp32 [B, H, M, N] with rows padded to multiples of 32 bytes.
at::Tensor ScoreMemory(at::IntArrayRef sizes, const at::TensorOptions& options);

// A 16-bit tensor [B, H, M, N] in the memory of `wide`: each row begins where that of `wide` does.
at::Tensor NarrowOver(const at::Tensor& wide_BHMN, at::ScalarType dtype);

// Output tensors.
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
