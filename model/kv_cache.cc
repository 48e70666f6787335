#include "model/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/util/Exception.h>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/device_tile_runner.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/sink.h"
#include "attention/kernels/softmax_merge.h"
#include "attention/kernels/tile_plan.h"
#include "attention/kernels/tile_runner.h"
#include "comm/layout.h"

namespace moonring::model {
namespace {

// Appends `rows` after the first `held` rows of `buffer`, growing it as needed; returns the first
// held + rows rows.
at::Tensor Append(at::Tensor& buffer, int64_t held, const at::Tensor& rows) {
  const int64_t wanted = held + rows.size(0);
  if (!buffer.defined() || buffer.size(0) < wanted) {
    const int64_t capacity = std::max<int64_t>(wanted, buffer.defined() ? 2 * buffer.size(0) : 256);
    at::Tensor grown = at::empty({capacity, rows.size(1), rows.size(2)}, rows.options());
    if (held > 0) grown.narrow(0, 0, held).copy_(buffer.narrow(0, 0, held));
    buffer = grown;
  }
  buffer.narrow(0, held, rows.size(0)).copy_(rows);
  return buffer.narrow(0, 0, wanted);
}

at::Tensor HeadsFirst(const at::Tensor& x_THD) { return x_THD.transpose(0, 1).unsqueeze(0); }

// Attention by LibTorch's operator. Row i attends to the first held + i + 1 keys, or to the last
// `window` of them if there is a window.
at::Tensor Fused(const at::Tensor& q_THD, const at::Tensor& k_SKD, const at::Tensor& v_SKD,
                 const attention::ScoreRule& rule) {
  const int64_t rows = q_THD.size(0), keys = k_SKD.size(0), held = keys - rows;
  // The operator's causal mask aligns the first row with the first key, so that mask is correct
  // only if the cache is empty.
  const bool windowed = rule.window > 0 && keys > rule.window;
  std::optional<at::Tensor> mask;
  if ((held > 0 && rows > 1) || windowed) {
    mask = at::ones({rows, keys}, q_THD.options().dtype(at::kBool)).tril(held);
    if (windowed) mask = mask->triu(held - rule.window + 1);
  }
  const at::Tensor out = at::scaled_dot_product_attention(
      HeadsFirst(q_THD), HeadsFirst(k_SKD), HeadsFirst(v_SKD), mask, /*dropout_p=*/0.0,
      /*is_causal=*/!mask.has_value() && rows > 1, rule.scale,
      /*enable_gqa=*/q_THD.size(1) != k_SKD.size(1));
  return out.squeeze(0).transpose(0, 1);
}

// Attention computed tile by tile. Tiles support softcaps, return the log-sum-exp that an attention
// sink needs, and accept values whose head size differs from that of the keys. LibTorch's operator
// supports none of these, or would have to store all scores.
at::Tensor Tiled(const at::Tensor& q_THD, const at::Tensor& k_SKD, const at::Tensor& v_SKD,
                 const attention::ScoreRule& rule) {
  const int64_t rows = q_THD.size(0), heads = q_THD.size(1), keys = k_SKD.size(0),
                kv_heads = k_SKD.size(1);
  const auto runner = attention::DeviceTileRunner(q_THD.device());
  const comm::Span all{0, 0, keys};
  const attention::TilePlan plan = attention::PlanTiles({keys}, {{0, keys - rows, keys}},
                                                        {{all, 0}}, {rule.window, runner->grid()});
  const attention::RunHeads run{
      attention::GroupHeads({{0, heads}, {0, kv_heads}}, heads / kv_heads),
      {rule.scale, rule.softcap}};
  const at::ScalarType type = runner->ComputeType(q_THD.scalar_type()),
                       sums = attention::AccumulateType(q_THD.scalar_type());
  attention::SoftmaxState state =
      attention::SoftmaxState::Empty(rows, heads, v_SKD.size(2), q_THD.options().dtype(sums));
  runner->Forward(run, plan, {q_THD.to(type), k_SKD.to(type), v_SKD.to(type)}, state);
  const attention::PartialAttention whole = attention::Finish(std::move(state));
  if (rule.sink_H.defined()) attention::AddSink(rule.sink_H, whole);
  return whole.out_MHD.to(q_THD.scalar_type());
}

}  // namespace

at::Tensor KvCache::Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                            const at::Tensor& v_TKD, const attention::ScoreRule& rule,
                            attention::KeptAttention* /*kept*/) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "key-value cache: attention for decoding has no gradient; run it without grad mode");
  TORCH_CHECK(next_layer_ < layers_.size(), "key-value cache: made for ", layers_.size(),
              " layers");
  TORCH_CHECK(rule.softcap >= 0.0 && std::isfinite(rule.softcap), "key-value cache: a softcap of ",
              rule.softcap, ", expected more than 0, or 0 for none");
  Layer& layer = layers_[next_layer_];
  const int64_t rows = q_THD.size(0);
  const at::Tensor k_SKD = Append(layer.k_SKD, tokens_, k_TKD),
                   v_SKD = Append(layer.v_SKD, tokens_, v_TKD);
  const bool tiled = rule.softcap != 0.0 || rule.sink_H.defined() || k_TKD.size(2) != v_TKD.size(2);
  const at::Tensor out =
      tiled ? Tiled(q_THD, k_SKD, v_SKD, rule) : Fused(q_THD, k_SKD, v_SKD, rule);
  if (++next_layer_ == layers_.size()) {
    next_layer_ = 0;
    tokens_ += rows;
  }
  return out;
}

void KvCache::Truncate(int64_t tokens) {
  TORCH_CHECK(tokens >= 0 && tokens <= tokens_, "key-value cache: cannot keep ", tokens,
              " tokens of ", tokens_);
  tokens_ = tokens;
  next_layer_ = 0;
}

}  // namespace moonring::model
