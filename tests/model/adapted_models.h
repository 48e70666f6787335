#ifndef MOONRING_TESTS_MODEL_ADAPTED_MODELS_H_
#define MOONRING_TESTS_MODEL_ADAPTED_MODELS_H_

// Small random models with adapters of every kind, and token streams for them.

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "comm/sequence.h"
#include "model/adapter.h"
#include "model/config/weights.h"
#include "model/transformer.h"
#include "tests/model/small_config.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {

inline ModelConfig SmallConfig(bool tied = true, int64_t layers = 2) {
  return testing::ParsedConfig(
      testing::SmallJson({{"tie_word_embeddings", tied}, {"num_hidden_layers", layers}}));
}

inline base::Parameters RandomWeights(const ModelConfig& config, at::ScalarType dtype) {
  at::manual_seed(5);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    at::Tensor value = at::randn(weight.shape, at::kDouble) * 0.3;
    if (weight.name.find("norm") != std::string::npos) value += 1;
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, value.to(dtype)));
  }
  return parameters;
}

struct Stream {
  std::vector<int64_t> lengths;
  at::Tensor ids, positions, identity, document_lengths;
};

inline Stream RandomStream(const std::vector<int64_t>& lengths, int64_t vocabulary) {
  at::manual_seed(8);
  Stream stream{lengths, {}, comm::PositionsInDocuments(lengths), {}, {}};
  stream.ids = at::randint(vocabulary, {stream.positions.size(0)}, at::kLong);
  std::vector<at::Tensor> identity, document_lengths;
  for (size_t d = 0; d < lengths.size(); ++d) {
    identity.push_back(at::arange(lengths[d], at::kLong) + (static_cast<int64_t>(d) << 32));
    document_lengths.push_back(at::full({lengths[d]}, lengths[d], at::kLong));
  }
  stream.identity = at::cat(identity);
  stream.document_lengths = at::cat(document_lengths);
  return stream;
}

inline Noise NoiseOf(const Stream& stream) {
  return {3, 4, stream.identity, 5.0, stream.document_lengths};
}

// A frozen base model, and the same base with an adapter whose B is not 0.
struct Models {
  std::unique_ptr<Transformer> base, adapted;
  std::shared_ptr<Adapter> adapter;
};

inline Models MakeModels(const ModelConfig& config, const AdapterOptions& options,
                         at::ScalarType dtype = at::kDouble,
                         Recompute recompute = Recompute::kBlock, bool moved = true) {
  Models models;
  const TransformerOptions held{
      .weight_dtype = dtype, .matmul_dtype = dtype, .recompute = recompute, .frozen = true};
  auto base = Transformer::Create(config, RandomWeights(config, dtype), held);
  EXPECT_OK(base);
  models.base = *std::move(base);
  auto adapter = Adapter::Create(config, options, models.base->parameters(), /*seed=*/7, dtype);
  EXPECT_OK(adapter);
  models.adapter = *std::move(adapter);
  at::manual_seed(6);
  for (const auto& parameter : models.adapter->parameters) {
    const at::Tensor change = at::randn(parameter->weight().sizes(), at::kDouble).to(dtype);
    if (moved)
      parameter->weight().add_(change, parameter->name().find("lora_B") != std::string::npos ||
                                               parameter->name().find("oft_R") != std::string::npos
                                           ? 0.2
                                           : 0.05);
  }
  auto adapted = Transformer::Adapt(*models.base, models.adapter);
  EXPECT_OK(adapted);
  models.adapted = *std::move(adapted);
  return models;
}

inline at::Tensor HiddenOf(Transformer& model, const Stream& stream, const Noise* noise = nullptr) {
  ForwardOptions options;
  if (noise != nullptr) options.noise = *noise;
  return model
      .Forward(stream.ids, stream.positions,
               std::make_shared<testing::MaskedAttention>(stream.lengths), options)
      .hidden_TD;
}

// The head of a model, with its LoRA where it has one, written out for autograd.
class PlainHead {
 public:
  PlainHead(const Transformer& model, at::ScalarType dtype) : map_(model.head_map()) {
    parameters_ = {model.head()};
    if (map_ != nullptr) parameters_.insert(parameters_.end(), {map_->a, map_->b});
    for (const auto& parameter : parameters_)
      weights_.push_back(parameter->Lease(dtype).requires_grad_(parameter->trainable()));
  }
  at::Tensor Logits(const at::Tensor& hidden) const {
    const at::Tensor logits = at::linear(hidden, weights_[0]);
    if (map_ == nullptr) return logits;
    return logits + at::linear(at::linear(hidden, weights_[1]), weights_[2]) * map_->scale;
  }
  // Adds the gradients to the Parameters, after a backward.
  void AddGradients() const {
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i].grad().defined()) parameters_[i]->AddGradient(weights_[i].grad());
    }
  }

 private:
  const Adapter::MapWeights* const map_;
  base::Parameters parameters_;
  std::vector<at::Tensor> weights_;
};

// Returns a loss that depends on all hidden states and on the head's logits, each weighted by fixed
// numbers.
inline double Loss(Transformer& model, const Stream& stream, const Noise* noise, bool backward) {
  const at::Tensor hidden = HiddenOf(model, stream, noise);
  const PlainHead head(model, hidden.scalar_type());
  at::manual_seed(20);
  const at::Tensor logits = head.Logits(hidden);
  const at::Tensor loss =
      (logits * at::randn(logits.sizes(), at::kDouble).to(logits.scalar_type())).sum() +
      hidden.pow(2).sum();
  if (backward) {
    for (const auto& parameter : model.adapter()->parameters) parameter->ClearGradient();
    loss.backward();
    head.AddGradients();
  }
  return loss.item<double>();
}

struct Kind {
  std::string name;
  AdapterOptions options;
  bool noise;
};

inline std::vector<Kind> Kinds() {
  return {Kind{"Lora", {.rank = 2, .alpha = 3}, false},
          Kind{"RsLoraDropout", {.rank = 3, .alpha = 2.5, .dropout = 0.3, .rslora = true}, true},
          Kind{"Dora", {.rank = 2, .alpha = 4, .dora = true}, false},
          Kind{"DoraDropout",
               {.rank = 2,
                .alpha = 4,
                .dropout = 0.25,
                .dora = true,
                .targets = {"q_proj", "down_proj"}},
               true},
          Kind{"Whole",
               {.rank = 2,
                .alpha = 4,
                .targets = {"v_proj"},
                .saved = {"embed_tokens", "lm_head", "norm", "k_proj"}},
               true},
          Kind{"EmbeddingAlone",
               {.rank = 1, .alpha = 1, .targets = {"o_proj"}, .saved = {"embed_tokens"}},
               true},
          Kind{"Head", {.rank = 2, .alpha = 3, .targets = {"q_proj", "lm_head"}}, false},
          Kind{"Oft", {.rotation = RotationOptions{.block_size = 8}}, false},
          Kind{"OftExact",
               {.targets = {"q_proj", "o_proj", "up_proj"},
                .saved = {"embed_tokens"},
                .rotation = RotationOptions{.blocks = 4, .block_size = 0, .terms = 0}},
               false},
          Kind{"Pissa", {.rank = 2, .alpha = 4, .principal = PrincipalOptions{-1}}, false},
          Kind{"PissaDora",
               {.rank = 3,
                .alpha = 2.5,
                .rslora = true,
                .dora = true,
                .targets = {"v_proj", "gate_proj", "down_proj"},
                .principal = PrincipalOptions{16}},
               false}};
}

inline std::string NameOf(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }

}  // namespace moonring::model

#endif  // MOONRING_TESTS_MODEL_ADAPTED_MODELS_H_
