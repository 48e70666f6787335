// Every model family and every scaled rotary embedding compared with Transformers' results
// (tests/golden/families), on one rank and on several.

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attention/strategy/strategies.h"
#include "comm/bin_exchange.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "model/adapter.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_folder.h"
#include "model/config/weights.h"
#include "model/expert_parts.h"
#include "model/families/families.h"
#include "model/freeze.h"
#include "model/transformer.h"
#include "objectives/router_balance.h"
#include "tests/model/golden_families.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_sketch.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::GoldenFamilies;
using ::moonring::testing::kGoldenFamilies;
using ::moonring::testing::RelativeError;
using ::moonring::testing::SketchedError;
using ::testing::ElementsAreArray;

at::Tensor Longs(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<int64_t>>(), at::kLong);
}

at::Tensor Doubles(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble);
}

// The packed stream of a test case.
struct Stream {
  Stream(const std::vector<int64_t>& lengths, const at::Tensor& ids, const at::Tensor& labels,
         double balance)
      : lengths(lengths),
        ids(ids),
        positions(comm::PositionsInDocuments(lengths)),
        targets(comm::ShiftLabels(labels, lengths)),
        balance(balance) {
    document_lengths = comm::LengthsOfTokens({lengths, ids, positions, targets, {}});
    predictions = targets.ne(comm::kIgnore).sum().item<int64_t>();
  }
  explicit Stream(const nlohmann::json& golden)
      : Stream(golden["input"]["lengths"].get<std::vector<int64_t>>(),
               Longs(golden["input"]["input_ids"]), Longs(golden["input"]["labels"]),
               golden.value("moe_aux_loss_coef", 0.0)) {}

  std::vector<int64_t> lengths;
  at::Tensor ids, positions, targets, document_lengths;
  int64_t predictions = 0;
  double balance = 0.0;  // coefficient of the routers' loss, for which all documents are one group
};

struct Outcome {
  double loss = 0.0;
  at::Tensor logits;
  std::map<std::string, at::Tensor>
      gradients;  // zeros if there is none: an expert that gets no token of a rank
};

at::Tensor LogitsOf(const ModelConfig& config, const at::Tensor& hidden, const at::Tensor& head) {
  const at::Tensor logits = at::linear(hidden, head) * config.logit_scale;
  return config.logit_softcap > 0 ? (logits / config.logit_softcap).tanh() * config.logit_softcap
                                  : logits;
}

// Returns this rank's share of a case's loss, and its gradients. The head is computed with plain
// operators, and its gradient is stored in its Parameter.
Outcome RunShare(Transformer& model, const Stream& stream, attention::Attention& attention,
                 const std::shared_ptr<comm::Communicator>& group,
                 std::shared_ptr<const comm::Layout>* used) {
  const ModelConfig& config = model.config();
  const base::Parameters& learning =
      model.adapter() == nullptr ? model.parameters() : model.adapter()->parameters;
  for (const auto& parameter : learning) parameter->ClearGradient();
  const auto layout = comm::Layout::Create(stream.lengths, attention.Divide(stream.lengths),
                                           attention::CausalTileArea);
  EXPECT_OK(layout);
  auto plan = attention.Plan(*layout);
  EXPECT_OK(plan);
  const auto cut = [&](const at::Tensor& tensor) { return (*layout)->Cut(tensor, group->rank()); };
  ForwardOptions options{.lengths_T = cut(stream.document_lengths),
                         .mixing = mixers::PlanMixing(*layout, group)};
  if (stream.balance > 0) options.router_groups = {cut(at::zeros_like(stream.ids)), 1};
  const Hidden result =
      model.Forward(cut(stream.ids), cut(stream.positions), *std::move(plan), options);
  at::Tensor head = model.head()->Lease(result.hidden_TD.scalar_type());
  if (model.head()->trainable()) head.requires_grad_();
  const at::Tensor logits = LogitsOf(config, result.hidden_TD, head);
  at::Tensor loss =
      at::cross_entropy_loss(logits, cut(stream.targets), {}, at::Reduction::Sum, comm::kIgnore) /
      static_cast<double>(stream.predictions);
  if (stream.balance > 0) {
    at::Tensor chosen = result.tally.chosen_GE.to(at::kDouble);
    EXPECT_OK(group->AllReduceSum(chosen));
    const at::Tensor weights =
        objectives::RouterWeights(chosen, config.experts.chosen, stream.balance);
    loss =
        loss +
        (result.tally.probability_GE * weights.to(result.tally.probability_GE.scalar_type())).sum();
  }
  if (loss.requires_grad()) loss.backward();
  if (head.grad().defined()) model.head()->AddGradient(head.grad());
  if (used != nullptr) *used = *layout;
  Outcome outcome{loss.item<double>(), logits.detach(), {}};
  for (const auto& parameter : learning) {
    if (!parameter->trainable()) continue;
    outcome.gradients[parameter->name()] = parameter->gradient().defined()
                                               ? parameter->gradient().clone()
                                               : at::zeros_like(parameter->weight());
  }
  return outcome;
}

Outcome RunAlone(Transformer& model, const Stream& stream) {
  const std::shared_ptr<comm::Communicator> alone = comm::Communicator::Alone();
  const auto attention =
      attention::CreateAttention({.strategy = {.name = "dense"}, .group = alone});
  EXPECT_OK(attention);
  return RunShare(model, stream, **attention, alone, nullptr);
}

TransformerOptions In(at::ScalarType dtype, Recompute recompute = Recompute::kBlock) {
  return {.weight_dtype = dtype, .matmul_dtype = dtype, .recompute = recompute};
}

class FamilyTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Folder() const { return kGoldenFamilies + GetParam(); }

  std::unique_ptr<Transformer> Load(TransformerOptions options) const {
    auto checkpoint = Checkpoint::Open(Folder());
    EXPECT_OK(checkpoint);
    auto model = Transformer::Load(*checkpoint, std::move(options));
    EXPECT_OK(model);
    return *std::move(model);
  }

  nlohmann::json Cases() const {
    std::ifstream file(Folder() + "/golden.json");
    EXPECT_TRUE(file.good()) << Folder();
    return nlohmann::json::parse(file)["cases"];
  }

  // The case with the most kinds of documents, which also has a router loss if there are experts.
  Stream Fullest() const { return Stream(Cases().back()); }

  // Compares with the golden file, which has a sketch of each gradient in fp64.
  void ExpectGolden(const nlohmann::json& golden, const Outcome& outcome, double loss,
                    double logits, double gradients, double norms) const {
    SCOPED_TRACE(golden["name"].get<std::string>());
    const nlohmann::json& output = golden["output"];
    const double wanted = output["loss"].get<double>();
    EXPECT_NEAR(outcome.loss, wanted, loss * wanted);
    const at::Tensor places = outcome.logits.index_select(0, Longs(golden["input"]["positions"]));
    std::vector<at::Tensor> rows;
    for (const nlohmann::json& row : output["logits"]) rows.push_back(Doubles(row));
    EXPECT_TRUE(RelativeError(places.narrow(1, 0, 8), at::stack(rows), logits));
    EXPECT_TRUE(RelativeError(places.logsumexp({1}), Doubles(output["logsumexp"]), logits));
    EXPECT_EQ(output["grad_norm"].size(), outcome.gradients.size());
    for (const auto& [name, norm] : output["grad_norm"].items()) {
      ASSERT_TRUE(outcome.gradients.contains(name)) << name;
      EXPECT_NEAR(outcome.gradients.at(name).norm().item<double>(), norm.get<double>(),
                  norms * norm.get<double>())
          << name;
    }
    if (!golden.contains("gradients")) return;
    for (const auto& [name, gradient] : outcome.gradients)
      EXPECT_TRUE(SketchedError(name, gradient, golden["gradients"].at(name), gradients));
  }
};

// In fp64 the results equal Transformers' up to the order of sums.
TEST_P(FamilyTest, Fp64) {
  const auto model = Load(In(at::kDouble));
  for (const nlohmann::json& golden : Cases())
    ExpectGolden(golden, RunAlone(*model, Stream(golden)), 1e-12, 1e-10, 1e-10, 1e-10);
}

// In fp32 the bound allows some hundred roundings of 6e-8, amplified by the depth. The error of
// Transformers in fp32 is as large (gradient_noise_fp32 in the golden files).
TEST_P(FamilyTest, Fp32) {
  const auto model = Load(In(at::kFloat));
  for (const nlohmann::json& golden : Cases())
    ExpectGolden(golden, RunAlone(*model, Stream(golden)), 1e-5, 1e-4, 1e-4, 1e-4);
}

// On several ranks, the gradients in fp64 differ from those of one rank by at most 1e-10. Most
// documents of the golden files are shorter than an attention block, so another stream has
// documents that a ring splits.
TEST_P(FamilyTest, RanksTogetherAreOne) {
  const nlohmann::json cases = Cases();
  const auto whole = Load(In(at::kDouble));
  std::vector<Stream> streams;
  for (const nlohmann::json& golden : cases) streams.emplace_back(golden);
  at::manual_seed(3);
  const at::Tensor ids = at::randint(whole->config().vocab_size, {270 + 9 + 140}, at::kLong);
  streams.emplace_back(std::vector<int64_t>{270, 9, 140}, ids, ids, streams.back().balance);
  std::vector<Outcome> alone;
  for (const Stream& stream : streams) alone.push_back(RunAlone(*whole, stream));
  for (const std::string strategy : {"ulysses", "zigzag-ring", "usp"}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(absl::StrCat(strategy, " on ", ranks, " ranks"));
      std::vector<std::vector<Outcome>> shares(ranks, std::vector<Outcome>(streams.size()));
      std::vector<std::shared_ptr<const comm::Layout>> layouts(streams.size());
      testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
        const int rank = world->rank();
        const auto model = Load(In(at::kDouble));
        ASSERT_OK_AND_ASSIGN(
            const auto attention,
            attention::CreateAttention({{.name = strategy}, world->communicator()}));
        for (size_t c = 0; c < streams.size(); ++c) {
          std::shared_ptr<const comm::Layout> used;
          shares[rank][c] = RunShare(*model, streams[c], *attention, world->communicator(), &used);
          if (rank == 0) layouts[c] = used;
        }
      });
      if (HasFailure()) return;
      for (size_t c = 0; c < streams.size(); ++c) {
        SCOPED_TRACE(absl::StrCat("stream ", c));
        Outcome sum;
        std::vector<at::Tensor> logits;
        for (const std::vector<Outcome>& share : shares) {
          sum.loss += share[c].loss;
          logits.push_back(share[c].logits);
          for (const auto& [name, gradient] : share[c].gradients) {
            at::Tensor& total = sum.gradients[name];
            total = total.defined() ? total + gradient : gradient;
          }
        }
        sum.logits = layouts[c]->Join(logits);
        if (c < cases.size()) ExpectGolden(cases[c], sum, 1e-12, 1e-10, 1e-10, 1e-10);
        EXPECT_NEAR(sum.loss, alone[c].loss, 1e-12 * alone[c].loss);
        EXPECT_TRUE(RelativeError(sum.logits, alone[c].logits, 1e-10));
        for (const auto& [name, gradient] : sum.gradients)
          EXPECT_TRUE(RelativeError(gradient, alone[c].gradients.at(name), 1e-10)) << name;
      }
    }
  }
}

// Groups of neighboring ranks share the experts of every layer; each rank has some of the experts.
TEST_P(FamilyTest, ExpertsOfSeveralRanks) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Folder()));
  const ModelConfig& config = checkpoint->config();
  if (config.experts.count == 0) GTEST_SKIP() << "no experts";
  const auto whole = Load(In(at::kDouble));
  const nlohmann::json cases = Cases();
  std::vector<Outcome> alone;
  for (const nlohmann::json& golden : cases) alone.push_back(RunAlone(*whole, Stream(golden)));
  const std::vector<std::pair<int, int>> sizes = {{2, 2}, {3, 3}, {4, 2}, {4, 4}};
  for (const auto& [ranks, shared_by] : sizes) {
    for (const Recompute recompute : {Recompute::kBlock, Recompute::kNone}) {
      SCOPED_TRACE(absl::StrCat("experts of ", shared_by, " of ", ranks, " ranks"));
      std::vector<std::vector<Outcome>> shares(ranks, std::vector<Outcome>(cases.size()));
      std::vector<std::shared_ptr<const comm::Layout>> layouts(cases.size());
      testing::RunRanks(
          ranks, [&, ranks = ranks, shared_by = shared_by](std::shared_ptr<comm::World> world) {
            const int rank = world->rank();
            ASSERT_OK_AND_ASSIGN(const auto mesh, comm::Mesh::Create(world, ranks));
            ASSERT_OK_AND_ASSIGN(const comm::Mesh::Cut cut, mesh->CutWorld(shared_by));
            const auto experts = std::make_shared<const comm::BinExchange>(
                cut.neighbours, comm::BinParts(config.experts.count, shared_by));
            const ExpertParts parts(config, *experts);
            TransformerOptions options = In(at::kDouble, recompute);
            options.expert_ranks = experts;
            const auto model = Load(options);
            int64_t held = 0, of_all = 0;
            for (const auto& parameter : model->parameters()) {
              if (!parts.Has(parameter->name())) continue;
              held += parameter->weight().numel();
              of_all += parameter->numel();
            }
            EXPECT_EQ(held * config.experts.count, of_all * experts->count());
            ASSERT_OK_AND_ASSIGN(
                const auto attention,
                attention::CreateAttention({{.name = "zigzag-ring"}, world->communicator()}));
            for (size_t c = 0; c < cases.size(); ++c) {
              std::shared_ptr<const comm::Layout> used;
              Outcome& share = shares[rank][c];
              share = RunShare(*model, Stream(cases[c]), *attention, world->communicator(), &used);
              if (rank == 0) layouts[c] = used;
              // The gradient is a section of the whole tensor's.
              for (const auto& parameter : model->parameters()) {
                if (!parts.Has(parameter->name()) || !parameter->trainable()) continue;
                at::Tensor& gradient = share.gradients[parameter->name()];
                const at::Tensor padded = at::zeros(parameter->shape(), gradient.options());
                padded.view(-1)
                    .narrow(0, parameter->begin(), gradient.numel())
                    .copy_(gradient.view(-1));
                gradient = padded;
              }
            }
          });
      if (HasFailure()) return;
      for (size_t c = 0; c < cases.size(); ++c) {
        SCOPED_TRACE(absl::StrCat("case ", c));
        Outcome sum;
        std::vector<at::Tensor> logits;
        for (const std::vector<Outcome>& share : shares) {
          sum.loss += share[c].loss;
          logits.push_back(share[c].logits);
          for (const auto& [name, gradient] : share[c].gradients) {
            at::Tensor& total = sum.gradients[name];
            total = total.defined() ? total + gradient : gradient;
          }
        }
        sum.logits = layouts[c]->Join(logits);
        ExpectGolden(cases[c], sum, 1e-12, 1e-10, 1e-10, 1e-10);
        EXPECT_TRUE(RelativeError(sum.logits, alone[c].logits, 1e-10));
        for (const auto& [name, gradient] : sum.gradients)
          EXPECT_TRUE(RelativeError(gradient, alone[c].gradients.at(name), 1e-10)) << name;
      }
    }
  }
}

TEST_P(FamilyTest, RecomputeChangesNoBit) {
  const Stream stream = Fullest();
  for (const at::ScalarType matmul : {at::kFloat, at::kBFloat16}) {
    TransformerOptions options = In(at::kFloat, Recompute::kNone);
    options.matmul_dtype = matmul;
    const Outcome keeping = RunAlone(*Load(options), stream);
    for (const Recompute recompute : {Recompute::kBlock, Recompute::kSelective}) {
      options.recompute = recompute;
      const Outcome again = RunAlone(*Load(options), stream);
      EXPECT_EQ(again.loss, keeping.loss);
      EXPECT_TRUE(BitEqual(again.logits, keeping.logits));
      for (const auto& [name, gradient] : keeping.gradients)
        EXPECT_TRUE(BitEqual(again.gradients.at(name), gradient)) << name;
    }
  }
}

// Feed-forward layers that run in tiles of rows give the same results: a weight's gradient is only
// summed in another order.
TEST_P(FamilyTest, TilesOfRowsAreOneRun) {
  const Stream stream = Fullest();
  TransformerOptions options = In(at::kDouble);
  options.tile_bytes = 0;
  const Outcome whole = RunAlone(*Load(options), stream);
  options.tile_bytes = 1;
  options.tile_rows = 7;
  const Outcome tiles = RunAlone(*Load(options), stream);
  EXPECT_NEAR(tiles.loss, whole.loss, 1e-13 * whole.loss);
  EXPECT_TRUE(RelativeError(tiles.logits, whole.logits, 1e-12));
  for (const auto& [name, gradient] : whole.gradients)
    EXPECT_TRUE(RelativeError(tiles.gradients.at(name), gradient, 1e-11)) << name;
}

// Returns the modules that LLaMA-Factory selects for lora_target: all (find_all_linear_modules):
// every linear module except the head, including routers.
std::vector<std::string> AllTargets(const ModelConfig& config) {
  const std::string& model_type =
      config.family->composite() ? config.family->text_model_type : config.model_type;
  if (config.layer_inputs.width > 0) {
    return {"down_proj",
            "gate_proj",
            "k_proj",
            "o_proj",
            "per_layer_input_gate",
            "per_layer_model_projection",
            "per_layer_projection",
            "q_proj",
            "up_proj",
            "v_proj"};
  }
  if (model_type == "gemma4_text" && config.experts.count > 0)
    return {"down_proj", "gate_proj", "k_proj", "o_proj", "proj", "q_proj", "up_proj", "v_proj"};
  if (model_type == "gpt_oss") return {"k_proj", "o_proj", "q_proj", "v_proj"};
  if (model_type == "phi3") return {"down_proj", "gate_up_proj", "o_proj", "qkv_proj"};
  if (model_type == "glm" || model_type == "glm4")
    return {"down_proj", "gate_up_proj", "k_proj", "o_proj", "q_proj", "v_proj"};
  if (model_type == "internlm2") return {"w1", "w2", "w3", "wo", "wqkv"};
  if (model_type == "mixtral")
    return {"gate", "k_proj", "o_proj", "q_proj", "v_proj", "w1", "w2", "w3"};
  if (model_type == "qwen2_moe")
    return {"down_proj",          "gate",    "gate_proj", "k_proj", "o_proj", "q_proj",
            "shared_expert_gate", "up_proj", "v_proj"};
  if (model_type == "qwen3_moe" || model_type == "qwen3_vl_moe_text")
    return {"down_proj", "gate", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  if (model_type == "qwen3_next")
    return {"down_proj", "gate",     "gate_proj", "in_proj_ba",         "in_proj_qkvz", "k_proj",
            "o_proj",    "out_proj", "q_proj",    "shared_expert_gate", "up_proj",      "v_proj"};
  if (model_type == "qwen3_5_moe_text") {
    return {"down_proj",          "gate_proj", "in_proj_a", "in_proj_b", "in_proj_qkv",
            "in_proj_z",          "k_proj",    "o_proj",    "out_proj",  "q_proj",
            "shared_expert_gate", "up_proj",   "v_proj"};
  }
  if (model_type == "qwen3_5_text")
    return {"down_proj", "gate_proj", "in_proj_a", "in_proj_b", "in_proj_qkv", "in_proj_z",
            "k_proj",    "o_proj",    "out_proj",  "q_proj",    "up_proj",     "v_proj"};
  if (model_type == "olmo_hybrid")
    return {"a_proj", "b_proj", "down_proj", "g_proj",  "gate_proj",
            "k_proj", "o_proj", "q_proj",    "up_proj", "v_proj"};
  if (model_type == "deepseek_v3" && config.latent.query_rank == 0)
    return {"down_proj", "gate_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj",
            "q_proj",    "up_proj"};
  if (model_type == "deepseek_v3")
    return {"down_proj", "gate_proj", "kv_a_proj_with_mqa", "kv_b_proj",
            "o_proj",    "q_a_proj",  "q_b_proj",           "up_proj"};
  if (model_type == "granitemoehybrid")
    return {"in_proj",  "input_linear",  "k_proj", "o_proj",
            "out_proj", "output_linear", "q_proj", "v_proj"};
  if (model_type == "kimi_linear") {
    std::vector<std::string> names = {"b_proj",    "down_proj", "f_a_proj",
                                      "f_b_proj",  "g_a_proj",  "g_b_proj",
                                      "gate_proj", "k_proj",    "kv_a_proj_with_mqa",
                                      "kv_b_proj", "o_proj",    "q_proj",
                                      "up_proj",   "v_proj",    "w1",
                                      "w2",        "w3"};
    if (config.latent.query_rank > 0) names.insert(names.end(), {"q_a_proj", "q_b_proj"});
    std::sort(names.begin(), names.end());
    return names;
  }
  if (model_type == "nemotron_h" && config.experts.width > 0)
    return {"down_proj", "fc1_latent_proj", "fc2_latent_proj", "in_proj", "k_proj",
            "o_proj",    "out_proj",        "q_proj",          "up_proj", "v_proj"};
  if (model_type == "nemotron_h")
    return {"down_proj", "in_proj", "k_proj", "o_proj", "out_proj", "q_proj", "up_proj", "v_proj"};
  if (model_type == "lfm2")
    return {"in_proj", "k_proj", "out_proj", "q_proj", "v_proj", "w1", "w2", "w3"};
  return {"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
}

// An adapter on every linear map. A new adapter changes nothing. With random B, the model and its
// gradients equal those of a model with the weights W + s B A: dA = s B^T dW, dB = s dW A^T.
TEST_P(FamilyTest, AnAdapterIsItsMergedModel) {
  TransformerOptions frozen = In(at::kDouble);
  frozen.frozen = true;
  const auto base = Load(frozen);
  const Stream stream = Fullest();
  ASSERT_OK_AND_ASSIGN(const auto adapter,
                       Adapter::Create(base->config(), {.rank = 2, .alpha = 3}, base->parameters(),
                                       /*seed=*/7, at::kDouble));
  EXPECT_THAT(adapter->options.targets, ElementsAreArray(AllTargets(base->config())));
  size_t matrices = 0, tables = base->config().tie_word_embeddings ? 1 : 2;
  for (const auto& parameter : base->parameters()) {
    const bool own = !base->config().family->linear_router &&
                     absl::EndsWithIgnoreCase(parameter->name(), ".gate.weight");
    matrices += parameter->weight().dim() == 2 && !own &&
                !absl::EndsWith(parameter->name(), "bias") &&
                !absl::EndsWith(parameter->name(), "router.weight") &&
                !absl::EndsWith(parameter->name(), "router.layer.weight");
  }
  if (base->config().layer_inputs.width > 0) ++tables;
  EXPECT_EQ(adapter->maps.size(), matrices - tables);
  ASSERT_OK_AND_ASSIGN(const auto adapted, Transformer::Adapt(*base, adapter));
  EXPECT_TRUE(
      RelativeError(RunAlone(*adapted, stream).logits, RunAlone(*base, stream).logits, 1e-13));

  at::manual_seed(6);
  for (const auto& parameter : adapter->parameters) {
    if (absl::StrContains(parameter->name(), "lora_B"))
      parameter->weight().copy_(at::randn(parameter->weight().sizes(), at::kDouble) * 0.02);
  }
  const Outcome outcome = RunAlone(*adapted, stream);
  base::Parameters merged;
  for (const auto& parameter : base->parameters()) {
    merged.push_back(std::make_shared<base::Parameter>(
        parameter->name(), adapter->Merged(parameter->name(), parameter->weight()).clone()));
  }
  ASSERT_OK_AND_ASSIGN(const auto whole,
                       Transformer::Create(base->config(), merged, In(at::kDouble)));
  const Outcome wanted = RunAlone(*whole, stream);
  EXPECT_NEAR(outcome.loss, wanted.loss, 1e-12 * wanted.loss);
  EXPECT_TRUE(RelativeError(outcome.logits, wanted.logits, 1e-10));
  for (const auto& [module, low] : adapter->maps) {
    const at::Tensor dw = wanted.gradients.at(module + ".weight");
    EXPECT_TRUE(RelativeError(outcome.gradients.at(low.a->name()),
                              at::matmul(low.b->weight().t(), dw) * 1.5, 1e-9))
        << module;
    EXPECT_TRUE(RelativeError(outcome.gradients.at(low.b->name()),
                              at::matmul(dw, low.a->weight().t()) * 1.5, 1e-9))
        << module;
  }
}

// Module names in hooks and error messages are those of the weights.
TEST_P(FamilyTest, ModulesHaveTheNamesOfTheirWeights) {
  const auto model = Load(In(at::kFloat));
  const std::shared_ptr<comm::Communicator> alone = comm::Communicator::Alone();
  const auto attention =
      attention::CreateAttention({.strategy = {.name = "dense"}, .group = alone});
  const std::vector<int64_t> three = {3};
  ASSERT_OK_AND_ASSIGN(const auto layout, comm::Layout::Create(three, (*attention)->Divide(three),
                                                               attention::CausalTileArea));
  auto plan = (*attention)->Plan(layout);
  ASSERT_OK(plan);
  std::vector<std::string> modules;
  ForwardOptions options{.lengths_T = at::full({3}, 3, at::kLong),
                         .mixing = mixers::PlanMixing(layout, alone)};
  options.hooks.after = [&](int64_t, absl::string_view module, const at::Tensor&) {
    modules.emplace_back(module);
    return at::Tensor();
  };
  const at::Tensor ids = at::arange(3, at::kLong);
  model->Forward(ids, ids, *std::move(plan), options);
  ASSERT_EQ(modules.size(), static_cast<size_t>(model->config().layers) + 2);
  for (const std::string& module : modules) {
    EXPECT_TRUE(std::any_of(
        model->parameters().begin(), model->parameters().end(),
        [&](const auto& weight) { return absl::StartsWith(weight->name(), module + "."); }))
        << module;
  }
}

// A model in which not all layers are softmax attention requires a mixing plan.
TEST_P(FamilyTest, RequiresAMixingForMixingLayers) {
  const auto model = Load(In(at::kFloat));
  const std::shared_ptr<comm::Communicator> alone = comm::Communicator::Alone();
  const auto attention =
      attention::CreateAttention({.strategy = {.name = "dense"}, .group = alone});
  const std::vector<int64_t> three = {3};
  ASSERT_OK_AND_ASSIGN(const auto layout, comm::Layout::Create(three, (*attention)->Divide(three),
                                                               attention::CausalTileArea));
  auto plan = (*attention)->Plan(layout);
  ASSERT_OK(plan);
  const std::shared_ptr<attention::PlannedAttention> planned = *std::move(plan);
  const at::Tensor ids = at::arange(3, at::kLong), lengths = at::full({3}, 3, at::kLong);
  const auto run = [&] { model->Forward(ids, ids, planned, {.lengths_T = lengths}); };
  if (model->config().layers_keeping(MixerCache::kState) == 0) {
    run();
    return;
  }
  EXPECT_THAT(run, ::testing::ThrowsMessage<c10::Error>(
                       ::testing::HasSubstr("the forward was given no mixing for it")));
}

// freeze: only the last block and the final norm are trained; their gradients are those of full
// training.
TEST_P(FamilyTest, SomeWeightsAreTrained) {
  const Stream stream = Fullest();
  const auto all = Load(In(at::kDouble));
  std::string norm = FinalNormName(all->config());  // "model.norm.weight"
  norm = norm.substr(0, norm.rfind('.'));
  norm = norm.substr(norm.rfind('.') + 1);
  ASSERT_OK_AND_ASSIGN(const std::set<std::string> names,
                       TrainableWeights(all->config(), {1, {"all"}, {norm}}));
  const Outcome wanted = RunAlone(*all, stream);
  TransformerOptions options = In(at::kDouble);
  options.learning = names;
  const Outcome outcome = RunAlone(*Load(options), stream);
  EXPECT_EQ(outcome.loss, wanted.loss);
  ASSERT_EQ(outcome.gradients.size(), names.size());
  for (const auto& [name, gradient] : outcome.gradients)
    EXPECT_TRUE(RelativeError(gradient, wanted.gradients.at(name), 1e-13)) << name;
  for (const WeightShape& weight : WantedWeights(all->config())) {
    const bool last =
        absl::StrContains(weight.name, absl::StrCat(".", all->config().layers - 1, "."));
    EXPECT_EQ(names.contains(weight.name),
              weight.learns && (last || absl::StrContains(weight.name, norm)))
        << weight.name;
  }
}

TEST_P(FamilyTest, SavedItOpensAsItWas) {
  const testing::ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Folder()));
  EXPECT_THAT(checkpoint->extra_names(), ::testing::IsEmpty());
  base::Parameters parameters;
  for (const std::string& name : checkpoint->names()) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, checkpoint->Load(name, at::kFloat));
    parameters.push_back(std::make_shared<base::Parameter>(name, weight.clone()));
  }
  ASSERT_OK(SaveFolder(folder.path(), checkpoint->config(), parameters, at::kFloat, {},
                       int64_t{1} << 30));
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
  ASSERT_EQ(again->names(), checkpoint->names());
  for (const auto& parameter : parameters)
    EXPECT_TRUE(BitEqual(*again->Load(parameter->name(), at::kFloat), parameter->weight()))
        << parameter->name();
  EXPECT_EQ(nlohmann::json::parse(again->config().json)["model_type"],
            checkpoint->config().model_type);
  ASSERT_EQ(again->config().rotaries.size(), checkpoint->config().rotaries.size());
  for (size_t i = 0; i < again->config().rotaries.size(); ++i) {
    EXPECT_EQ(DescribeRope(again->config().rotaries[i]),
              DescribeRope(checkpoint->config().rotaries[i]));
    EXPECT_EQ(again->config().rotaries[i].theta, checkpoint->config().rotaries[i].theta);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

// Every supported family has a golden file.
TEST(FamiliesTest, EachIsTested) {
  std::set<std::string> tested;
  for (const std::string& name : GoldenFamilies()) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(kGoldenFamilies + name));
    tested.insert(checkpoint->config().model_type);
  }
  for (const std::vector<Family>* list : {&Families(), &Composites()}) {
    for (const Family& family : *list)
      EXPECT_TRUE(tested.contains(family.model_type)) << family.title;
  }
}

}  // namespace
}  // namespace moonring::model
