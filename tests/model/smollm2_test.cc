// SmolLM2-135M, from its GGUF file, compared with Transformers.

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "comm/sequence.h"
#include "model/sampler.h"
#include "model/transformer.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;

class SmolLm2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::ifstream file("tests/golden/model/smollm2.json");
    golden_ = nlohmann::json::parse(file);
    auto checkpoint = Checkpoint::Open(std::getenv("SMOLLM2_GGUF"));
    ASSERT_OK(checkpoint);
    auto model = Transformer::Load(*checkpoint, {});
    ASSERT_OK(model);
    model_ = *std::move(model);
  }
  static void TearDownTestSuite() { model_.reset(); }

  static nlohmann::json golden_;
  static std::unique_ptr<Transformer> model_;
};
nlohmann::json SmolLm2Test::golden_;
std::unique_ptr<Transformer> SmolLm2Test::model_;

at::Tensor AsLongs(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<int64_t>>(), at::kLong);
}

TEST_F(SmolLm2Test, LossesAndGradients) {
  for (const nlohmann::json& golden : golden_["cases"]) {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const auto lengths = golden["input"]["lengths"].get<std::vector<int64_t>>();
    for (const auto& parameter : model_->parameters()) parameter->ClearGradient();
    const auto attention = std::make_shared<MaskedAttention>(lengths);
    const at::Tensor hidden = model_
                                  ->Forward(AsLongs(golden["input"]["input_ids"]),
                                            comm::PositionsInDocuments(lengths), attention)
                                  .hidden_TD;
    at::Tensor head = model_->head()->Lease(at::kFloat).requires_grad_();
    const at::Tensor logits = at::linear(hidden, head);
    const at::Tensor targets = comm::ShiftLabels(AsLongs(golden["input"]["labels"]), lengths);
    const at::Tensor loss =
        at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, comm::kIgnore);
    loss.backward();
    model_->head()->AddGradient(head.grad());
    // Bounds relative to fp64. Transformers' fp32 differs from fp64 by up to 3e-6 (losses) and 2e-4
    // (gradients), and as much from Moonring's fp32: the rotary frequencies are powers in fp32,
    // whose last bit depends on the processor.
    const double wanted = golden["output"]["loss"].get<double>();
    EXPECT_NEAR(loss.item<double>(), wanted, 1e-5 * wanted);
    const at::Tensor places = logits.index_select(0, AsLongs(golden["input"]["positions"]));
    const auto logsumexp = golden["output"]["logsumexp"].get<std::vector<double>>();
    EXPECT_TRUE(RelativeError(places.logsumexp({1}), at::tensor(logsumexp, at::kDouble), 1e-5));
    // The norm is computed in fp64: at::norm in fp32 has an error of 1e-4 on a million numbers.
    for (const auto& parameter : model_->parameters()) {
      const double norm = golden["output"]["grad_norm"][parameter->name()].get<double>();
      EXPECT_NEAR(parameter->gradient().to(at::kDouble).norm().item<double>(), norm, 5e-4 * norm)
          << parameter->name();
    }
  }
}

TEST_F(SmolLm2Test, AnswersGreedily) {
  const nlohmann::json& chat = golden_["chat"];
  const auto answer = chat["answer_ids"].get<std::vector<int64_t>>();
  Sampler sampler(*model_);
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> made,
                       sampler.Generate(chat["prompt_ids"].get<std::vector<int64_t>>(),
                                        {.stop_ids = {answer.back()}}));
  EXPECT_EQ(made, answer);
}

}  // namespace
}  // namespace moonring::model
