#include "tests/attention/cuda_stand_ins.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace moonring::attention {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

struct StandInMask {
  bool causal = false, bottom_right = false;
  int64_t left = -1;  // number of visible keys before the diagonal; -1: all
};

// Returns bool [M, N]: whether query row m attends to key row n.
at::Tensor Seen(const at::Tensor& query_offsets, const at::Tensor& key_offsets,
                const StandInMask& mask) {
  TORCH_CHECK(query_offsets.scalar_type() == at::kInt && key_offsets.scalar_type() == at::kInt &&
              query_offsets.sizes() == key_offsets.sizes());
  const int32_t *q = query_offsets.const_data_ptr<int32_t>(),
                *k = key_offsets.const_data_ptr<int32_t>();
  const int64_t n = query_offsets.size(0) - 1;
  const at::Tensor seen = at::zeros({q[n], k[n]}, at::kBool);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t rows = q[i + 1] - q[i], keys = k[i + 1] - k[i];
    const at::Tensor row = at::arange(rows).unsqueeze(1) + (mask.bottom_right ? keys - rows : 0),
                     column = at::arange(keys).unsqueeze(0);
    at::Tensor of_tile = at::ones({rows, keys}, at::kBool);
    if (mask.causal) of_tile = of_tile.logical_and(column <= row);
    if (mask.left >= 0) of_tile = of_tile.logical_and(column >= row - mask.left);
    seen.narrow(0, q[i], rows).narrow(1, k[i], keys).copy_(of_tile);
  }
  return seen;
}

// [rows, heads, D] -> fp64 [heads, rows, D].
at::Tensor ByHeadInDouble(const at::Tensor& rows, int64_t repeats = 1) {
  return rows.to(at::kDouble).repeat_interleave(repeats, 1).transpose(0, 1);
}

at::Tensor Scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& seen, double scale) {
  return at::matmul(ByHeadInDouble(q), ByHeadInDouble(k, q.size(1) / k.size(1)).transpose(1, 2))
      .mul(scale)
      .masked_fill(seen.logical_not(), -INFINITY);
}

struct Attended {
  at::Tensor out_MHD, lse_HM;
};

Attended Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const at::Tensor& seen, double scale) {
  const at::Tensor scores = Scores(q, k, seen, scale);
  return {at::matmul(scores.softmax(2), ByHeadInDouble(v, q.size(1) / k.size(1)))
              .transpose(0, 1)
              .to(q.scalar_type()),
          at::logsumexp(scores, {2}).to(at::kFloat)};
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients AttendBackward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse_HM,
                         const at::Tensor& seen, double scale) {
  const int64_t repeats = q.size(1) / k.size(1);
  const at::Tensor p = at::exp(Scores(q, k, seen, scale) - lse_HM.to(at::kDouble).unsqueeze(2));
  const at::Tensor delta = (ByHeadInDouble(dout) * ByHeadInDouble(out)).sum(2, true);
  const at::Tensor ds =
      p * (at::matmul(ByHeadInDouble(dout), ByHeadInDouble(v, repeats).transpose(1, 2)) - delta) *
      scale;
  const auto rows = [&](const at::Tensor& of_heads) {
    return of_heads.transpose(0, 1).to(q.scalar_type()).contiguous();
  };
  const auto sum = [&](const at::Tensor& of_heads) {
    return rows(of_heads.unflatten(0, {-1, repeats}).sum(1));
  };
  return {rows(at::matmul(ds, ByHeadInDouble(k, repeats))),
          sum(at::matmul(ds.transpose(1, 2), ByHeadInDouble(q))),
          sum(at::matmul(p.transpose(1, 2), ByHeadInDouble(dout)))};
}

int64_t Longest(const at::Tensor& offsets) { return offsets.diff().max().item<int64_t>(); }

void CheckRows(const at::Tensor& rows, at::IntArrayRef sizes = {}) {
  TORCH_CHECK(rows.stride(-1) == 1 && rows.size(-1) % 8 == 0, "rows of ", rows.sizes(),
              " in strides of ", rows.strides());
  for (int64_t dim = 0; dim + 1 < rows.dim(); ++dim)
    TORCH_CHECK(rows.size(dim) == 1 || rows.stride(dim) % 8 == 0, "strides ", rows.strides());
  TORCH_CHECK(rows.storage_offset() % 8 == 0 &&
              (sizes.empty() || (rows.sizes() == sizes && rows.is_contiguous())));
}

// Returns the mask of a flash attention call, after checking its arguments.
StandInMask FlashMask(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& cu_q, const at::Tensor& cu_k, int64_t max_q, int64_t max_k,
                      bool causal, int64_t left, int64_t right) {
  TORCH_CHECK((q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) && q.dim() == 3 &&
              q.size(2) <= 256 && k.size(2) == q.size(2) && v.sizes() == k.sizes());
  TORCH_CHECK(max_q >= std::max<int64_t>(2, Longest(cu_q)) && max_k == Longest(cu_k) &&
              right == -1);
  // With a left bound it is a window; `causal` sets its right bound to the diagonal.
  return {causal, /*bottom_right=*/true, left};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> FlashForward(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& cu_q,
    const OptionalTensor& cu_k, int64_t max_q, int64_t max_k, double dropout, bool causal,
    bool debug, std::optional<double> scale, std::optional<int64_t> left,
    std::optional<int64_t> right, const OptionalTensor& seqused_k, const OptionalTensor& alibi) {
  TORCH_CHECK(dropout == 0 && !debug && !seqused_k && !alibi);
  for (const at::Tensor& rows : {q, k, v}) CheckRows(rows);
  const Attended attended = Attend(
      q, k, v,
      Seen(*cu_q, *cu_k, FlashMask(q, k, v, *cu_q, *cu_k, max_q, max_k, causal, *left, *right)),
      *scale);
  return {attended.out_MHD.contiguous(), attended.lse_HM, at::Tensor(), at::Tensor(), at::Tensor()};
}

Gradients FlashBackward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                        const at::Tensor& cu_q, const at::Tensor& cu_k, int64_t max_q,
                        int64_t max_k, double dropout, bool causal, const at::Tensor&,
                        const at::Tensor&, std::optional<double> scale, std::optional<int64_t> left,
                        std::optional<int64_t> right) {
  for (const at::Tensor& rows : {q, k, v}) CheckRows(rows);
  for (const at::Tensor& rows : {dout, out}) CheckRows(rows, q.sizes());
  TORCH_CHECK(dropout == 0 && out.scalar_type() == q.scalar_type() &&
              dout.scalar_type() == q.scalar_type());
  TORCH_CHECK(lse.is_contiguous() && lse.scalar_type() == at::kFloat &&
              lse.sizes() == at::IntArrayRef({q.size(1), q.size(0)}));
  return AttendBackward(
      dout, q, k, v, out, lse,
      Seen(cu_q, cu_k, FlashMask(q, k, v, cu_q, cu_k, max_q, max_k, causal, *left, *right)),
      *scale);
}

void CheckEfficient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cu_q,
                    const at::Tensor& cu_k, int64_t max_q, int64_t max_k) {
  TORCH_CHECK(q.scalar_type() == at::kFloat && q.dim() == 4 && q.size(0) == 1 &&
              q.size(2) == k.size(2));
  TORCH_CHECK(max_q == Longest(cu_q) && max_k == Longest(cu_k));
}

// Visits the rows of each tile in memory-efficient attention's lse, of shape [tiles, H, longest
// length rounded up to 32]. After a tile's rows, it has +inf up to a multiple of 32, then undefined
// values.
template <typename Visit>
void EachLse(const at::Tensor& cu_q, const Visit& visit) {
  const int32_t* q = cu_q.const_data_ptr<int32_t>();
  for (int64_t i = 0; i + 1 < cu_q.size(0); ++i)
    visit(i, q[i], q[i + 1] - q[i], (q[i + 1] - q[i] + 31) / 32 * 32);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt>
EfficientForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const OptionalTensor& bias, const OptionalTensor& cu_q, const OptionalTensor& cu_k,
                 std::optional<c10::SymInt> longest_q, std::optional<c10::SymInt> longest_k,
                 double dropout, int64_t mask, bool with_lse, std::optional<double> scale,
                 const OptionalTensor& seqlen_k, std::optional<int64_t> window) {
  const int64_t max_q = longest_q->expect_int(), max_k = longest_k->expect_int();
  TORCH_CHECK(!bias && dropout == 0 && with_lse && !seqlen_k && !window &&
              (mask == 0 || mask == 1));
  CheckEfficient(q, k, *cu_q, *cu_k, max_q, max_k);
  for (const at::Tensor& rows : {q, k, v}) CheckRows(rows);
  const Attended attended = Attend(q[0], k[0], v[0], Seen(*cu_q, *cu_k, {mask == 1}), *scale);
  const at::Tensor lse =
      at::full({cu_q->size(0) - 1, q.size(2), (max_q + 31) / 32 * 32}, NAN, at::kFloat);
  EachLse(*cu_q, [&](int64_t i, int64_t row, int64_t rows, int64_t padded) {
    lse[i].narrow(1, 0, padded).fill_(INFINITY);
    lse[i].narrow(1, 0, rows).copy_(attended.lse_HM.narrow(1, row, rows));
  });
  return {
      attended.out_MHD.contiguous().unsqueeze(0), lse, at::Tensor(), at::Tensor(), max_q, max_k};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> EfficientBackward(
    const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const OptionalTensor& bias, const at::Tensor& out, const OptionalTensor& cu_q,
    const OptionalTensor& cu_k, int64_t max_q, int64_t max_k, const at::Tensor& lse, double dropout,
    const at::Tensor&, const at::Tensor&, int64_t mask, bool bias_gradient,
    std::optional<double> scale, std::optional<int64_t> splits, std::optional<int64_t> window,
    bool shared) {
  TORCH_CHECK(!bias && dropout == 0 && !bias_gradient && !splits && !window && !shared &&
              (mask == 0 || mask == 1));
  CheckEfficient(q, k, *cu_q, *cu_k, max_q, max_k);
  for (const at::Tensor& rows : {q, k, v}) CheckRows(rows);
  const int64_t out_sizes[] = {1, q.size(1), q.size(2), v.size(3)};  // the values' own head dim
  for (const at::Tensor& rows : {dout, out}) CheckRows(rows, out_sizes);
  TORCH_CHECK(lse.stride(2) == 1 && lse.size(2) == (max_q + 31) / 32 * 32);
  const at::Tensor lse_HM = at::empty({q.size(2), q.size(1)}, at::kFloat);
  EachLse(*cu_q, [&](int64_t i, int64_t row, int64_t rows, int64_t padded) {
    TORCH_CHECK(lse[i].narrow(1, rows, padded - rows).eq(INFINITY).all().item<bool>(),
                "padding of lse");
    lse_HM.narrow(1, row, rows).copy_(lse[i].narrow(1, 0, rows));
  });
  const auto [dq, dk, dv] = AttendBackward(dout[0], q[0], k[0], v[0], out[0], lse_HM,
                                           Seen(*cu_q, *cu_k, {mask == 1}), *scale);
  return {dq.unsqueeze(0), dk.unsqueeze(0), dv.unsqueeze(0), at::Tensor()};
}

// ---- Dense cuDNN attention: inputs [1, H, S, D], lse [1, H, S, 1]; its causal mask is aligned at
// the top left.

at::Tensor RowsOfBatch(const at::Tensor& batch) { return batch[0].transpose(0, 1); }
at::Tensor BatchOf(const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); }

at::Tensor CudnnSeen(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal) {
  TORCH_CHECK((q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf) && q.dim() == 4 &&
              q.size(0) == 1 && q.size(3) <= 128);
  TORCH_CHECK(k.size(2) > 1 && q.size(1) % k.size(1) == 0 && k.sizes() == v.sizes());
  TORCH_CHECK(!at::globalContext().deterministicAlgorithms());
  for (const at::Tensor& rows : {q, k, v}) CheckRows(rows);
  const auto offsets = [](const at::Tensor& rows) {
    return at::tensor({0, static_cast<int32_t>(rows.size(2))}, at::kInt);
  };
  return Seen(offsets(q), offsets(k), {causal, /*bottom_right=*/false});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
           at::Tensor, at::Tensor>
CudnnForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const OptionalTensor& bias, bool with_lse, double dropout, bool causal, bool debug,
             std::optional<double> scale) {
  TORCH_CHECK(!bias && with_lse && dropout == 0 && !debug);
  const Attended attended =
      Attend(RowsOfBatch(q), RowsOfBatch(k), RowsOfBatch(v), CudnnSeen(q, k, v, causal), *scale);
  return {BatchOf(attended.out_MHD.contiguous()),
          attended.lse_HM.unsqueeze(0).unsqueeze(3),
          at::Tensor(),
          at::Tensor(),
          q.size(2),
          k.size(2),
          at::Tensor(),
          at::Tensor(),
          at::Tensor()};
}

Gradients CudnnBackward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                        const at::Tensor&, const at::Tensor&, const at::Tensor& bias,
                        const at::Tensor& cu_q, const at::Tensor& cu_k, c10::SymInt max_q,
                        c10::SymInt max_k, double dropout, bool causal,
                        std::optional<double> scale) {
  TORCH_CHECK(!bias.defined() && !cu_q.defined() && !cu_k.defined() && dropout == 0);
  TORCH_CHECK(max_q == q.size(2) && max_k == k.size(2));
  TORCH_CHECK(dout.sizes() == q.sizes() && dout.strides() == out.strides() &&
              dout.scalar_type() == q.scalar_type() && out.scalar_type() == q.scalar_type());
  TORCH_CHECK(lse.is_contiguous() && lse.scalar_type() == at::kFloat &&
              lse.sizes() == at::IntArrayRef({1, q.size(1), q.size(2), 1}));
  const auto [dq, dk, dv] = AttendBackward(
      RowsOfBatch(dout), RowsOfBatch(q), RowsOfBatch(k), RowsOfBatch(v), RowsOfBatch(out),
      lse.squeeze(3).squeeze(0), CudnnSeen(q, k, v, causal), *scale);
  return {BatchOf(dq), BatchOf(dk), BatchOf(dv)};
}

}  // namespace

torch::Library CudaStandIns() {
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("_flash_attention_forward", TORCH_FN(FlashForward));
  library.impl("_flash_attention_backward", TORCH_FN(FlashBackward));
  library.impl("_scaled_dot_product_cudnn_attention", TORCH_FN(CudnnForward));
  library.impl("_scaled_dot_product_cudnn_attention_backward", TORCH_FN(CudnnBackward));
  library.impl("_efficient_attention_forward", TORCH_FN(EfficientForward));
  library.impl("_efficient_attention_backward", TORCH_FN(EfficientBackward));
  return library;
}

}  // namespace moonring::attention
