#ifndef MOONRING_TESTS_MODEL_HOOKED_MODELS_H_
#define MOONRING_TESTS_MODEL_HOOKED_MODELS_H_

// A small model whose hidden states are read between its blocks, and every mode in which
// activations are kept for the backward.

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/stream_hooks.h"
#include "model/transformer.h"
#include "tests/model/adapted_models.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {

inline constexpr int64_t kLayers = 4;

// A store that keeps copies and counts those that are still alive.
class CloneStore : public ActivationStore {
 public:
  std::unique_ptr<StoredActivation> Put(at::Tensor activation) override {
    ++puts;
    return std::make_unique<Stored>(activation.clone());
  }
  int64_t stored_bytes() const override { return 0; }
  int puts = 0;

 private:
  struct Stored : StoredActivation {
    explicit Stored(at::Tensor copy) : tensor(std::move(copy)) {}
    at::Tensor Get() override { return tensor; }
    at::Tensor tensor;
  };
};

// A fixture with a model and a token stream.
class HookedModelTest : public ::testing::Test {
 protected:
  static ModelConfig Config(bool bias = false) {
    return testing::ParsedConfig(testing::SmallJson(
        {{"tie_word_embeddings", false}, {"num_hidden_layers", kLayers}, {"mlp_bias", bias}}));
  }

  static TransformerOptions In(Recompute recompute, at::ScalarType dtype = at::kDouble) {
    return {.weight_dtype = dtype, .matmul_dtype = dtype, .recompute = recompute};
  }

  static std::unique_ptr<Transformer> Make(const TransformerOptions& options, bool bias = false) {
    return Transformer::Create(Config(bias), RandomWeights(Config(bias), options.weight_dtype),
                               options)
        .value();
  }

  Hidden Run(Transformer& model, StreamHooks hooks) {
    attention_ = std::make_shared<testing::MaskedAttention>(stream_.lengths);
    return model.Forward(stream_.ids, stream_.positions, attention_, {.hooks = std::move(hooks)});
  }

  static std::map<std::string, at::Tensor> Gradients(Transformer& model) {
    std::map<std::string, at::Tensor> gradients;
    for (const auto& parameter : model.parameters()) {
      if (parameter->gradient().defined()) gradients[parameter->name()] = parameter->gradient();
      parameter->ClearGradient();
    }
    return gradients;
  }

  static void ExpectBitEqual(const std::map<std::string, at::Tensor>& a,
                             const std::map<std::string, at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, gradient] : a) {
      ASSERT_TRUE(b.count(name)) << name;
      EXPECT_TRUE(testing::BitEqual(gradient, b.at(name))) << name;
    }
  }

  static std::shared_ptr<base::Parameter> Named(Transformer& model, const std::string& name) {
    for (const auto& parameter : model.parameters()) {
      if (parameter->name() == name) return parameter;
    }
    return nullptr;
  }

  // Returns fixed random numbers of the shape of the hidden states.
  at::Tensor Weights(int64_t seed) const {
    at::manual_seed(static_cast<uint64_t>(seed));
    return at::randn({stream_.ids.size(0), Config().hidden_size}, at::kDouble);
  }

  // Returns a loss of the final hidden states and of those after layers 1 and 3.
  at::Tensor LossOfStates(Transformer& model, StreamHook after = nullptr) {
    const Hidden made = Run(model, {.after = std::move(after), .states = {3, 1}});
    return (made.hidden_TD * Weights(30)).sum() + (made.states_TD[0] * Weights(31)).square().sum() +
           (made.states_TD[1] * Weights(32)).sin().sum();
  }

  Stream stream_ = RandomStream({7, 1, 5}, 13);
  std::shared_ptr<testing::MaskedAttention> attention_;
};

struct Mode {
  std::string name;
  Recompute recompute;
  bool stores = false;
  int64_t whole_layers = 0, selective_layers = 0;

  TransformerOptions Options(at::ScalarType dtype = at::kDouble) const {
    TransformerOptions options{.weight_dtype = dtype,
                               .matmul_dtype = dtype,
                               .recompute = recompute,
                               .whole_layers = whole_layers,
                               .selective_layers = selective_layers};
    if (stores) options.activation_store = std::make_shared<CloneStore>();
    return options;
  }
};

inline void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

// Every mode in which activations are kept or recomputed for the backward.
inline std::vector<Mode> Modes() {
  return {Mode{"block", Recompute::kBlock},
          Mode{"selective", Recompute::kSelective},
          Mode{"none", Recompute::kNone},
          Mode{"block_stored", Recompute::kBlock, true},
          Mode{"selective_stored", Recompute::kSelective, true},
          Mode{"mixed", Recompute::kBlock, true, 1, 1}};
}

inline std::string NameOfMode(const ::testing::TestParamInfo<Mode>& info) {
  return info.param.name;
}

}  // namespace moonring::model

#endif  // MOONRING_TESTS_MODEL_HOOKED_MODELS_H_
