#include "model/kv_cache.h"

#include <algorithm>
#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace moonring::model {
namespace {

// Writes `rows` behind the first `held` rows of `buffer`, which grows as needed; returns the rows now held.
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

}  // namespace

at::Tensor KvCache::Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD, const attention::ScoreRule& rule,
                            attention::KeptAttention* /*kept*/) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "key-value cache: attention for decoding has no gradient; run it without grad mode");
  TORCH_CHECK(next_layer_ < layers_.size(), "key-value cache: made for ", layers_.size(), " layers");
  Layer& layer = layers_[next_layer_];
  const int64_t rows = q_THD.size(0);
  const at::Tensor k_SKD = Append(layer.k_SKD, tokens_, k_TKD), v_SKD = Append(layer.v_SKD, tokens_, v_TKD);
  // Row i sees the first tokens_ + i + 1 keys, the last `window` of them where there is one. An operator's own causal mask counts
  // from the first key, so it serves an empty cache only.
  const bool windowed = rule.window > 0 && tokens_ + rows > rule.window;
  std::optional<at::Tensor> mask;
  if ((tokens_ > 0 && rows > 1) || windowed) {
    mask = at::ones({rows, tokens_ + rows}, q_THD.options().dtype(at::kBool)).tril(tokens_);
    if (windowed) mask = mask->triu(tokens_ - rule.window + 1);
  }
  const at::Tensor out =
      at::scaled_dot_product_attention(HeadsFirst(q_THD), HeadsFirst(k_SKD), HeadsFirst(v_SKD), mask, /*dropout_p=*/0.0,
                                       /*is_causal=*/!mask.has_value() && rows > 1, rule.scale, /*enable_gqa=*/q_THD.size(1) != k_TKD.size(1));
  if (++next_layer_ == layers_.size()) {
    next_layer_ = 0;
    tokens_ += rows;
  }
  return out.squeeze(0).transpose(0, 1);
}

void KvCache::Truncate(int64_t tokens) {
  TORCH_CHECK(tokens >= 0 && tokens <= tokens_, "key-value cache: cannot keep ", tokens, " tokens of ", tokens_);
  tokens_ = tokens;
  next_layer_ = 0;
}

}  // namespace moonring::model
