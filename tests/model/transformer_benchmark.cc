// Seconds and peak memory of one training step's forward and backward (no optimizer):
// SmolLM2-135M's shape with random weights, one document, a target in every row, dense attention,
// chunked log-probs; all weights are trained, or an adapter's. transformer_benchmark.py does the
// same with Transformers.
//
//   bazel run -c opt //tests/model:transformer_benchmark -- --benchmark_min_time=10

#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "model/config/weights.h"
#include "model/transformer.h"
#include "objectives/log_prob.h"
#include "tests/model/small_config.h"
#include "tests/testing/live_bytes.h"

namespace moonring::model {
namespace {

ModelConfig SmolLm2() {
  return testing::ParsedConfig(testing::SmallJson({{"vocab_size", 49152},
                                                   {"hidden_size", 576},
                                                   {"intermediate_size", 1536},
                                                   {"num_hidden_layers", 30},
                                                   {"num_attention_heads", 9},
                                                   {"num_key_value_heads", 3},
                                                   {"rope_theta", 100000.0},
                                                   {"max_position_embeddings", 8192}}));
}

std::unique_ptr<Transformer> RandomModel(at::ScalarType matmul_dtype, Recompute recompute,
                                         bool frozen) {
  const ModelConfig config = SmolLm2();
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    at::Tensor value =
        weight.shape.size() == 1 ? at::ones(weight.shape) : at::randn(weight.shape) * 0.04;
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, value));
  }
  return Transformer::Create(
             config, std::move(parameters),
             {.matmul_dtype = matmul_dtype, .recompute = recompute, .frozen = frozen})
      .value();
}

// Which weights are trained.
enum Finetuning : int64_t { kFull, kLora, kLoraDropout, kDora };

// Returns a frozen base with an adapter of rank 8 on all linear maps.
std::unique_ptr<Transformer> Adapted(const Transformer& base, int64_t finetuning) {
  AdapterOptions options;
  options.dropout = finetuning == kLoraDropout ? 0.1 : 0.0;
  options.dora = finetuning == kDora;
  return Transformer::Adapt(base, Adapter::Create(base.config(), options, base.parameters(),
                                                  /*seed=*/1, at::kFloat)
                                      .value())
      .value();
}

// Arguments: the number of tokens; 1 for bf16; 1 to keep all activations; 1 for the forward only;
// the Finetuning.
void Step(benchmark::State& state) {
  const int64_t tokens = state.range(0), finetuning = state.range(4);
  const at::ScalarType dtype = state.range(1) != 0 ? at::kBFloat16 : at::kFloat;
  const bool forward_alone = state.range(3) != 0;
  const auto base = RandomModel(dtype, state.range(2) != 0 ? Recompute::kNone : Recompute::kBlock,
                                /*frozen=*/finetuning != kFull);
  const auto adapted = finetuning == kFull ? nullptr : Adapted(*base, finetuning);
  Transformer* model = adapted == nullptr ? base.get() : adapted.get();
  const base::Parameters& learning =
      adapted == nullptr ? base->parameters() : adapted->adapter()->parameters;
  const at::Tensor identity = at::arange(tokens, at::kLong);
  ForwardOptions options;
  options.noise = Noise{1, 0, identity, 0.0, {}};
  const at::Tensor ids = at::randint(49152, {tokens}, at::kLong),
                   positions = at::arange(tokens, at::kLong),
                   targets = comm::ShiftLabels(ids, {tokens});
  const auto dense = attention::CreateAttention(
                         {.strategy = {.name = "dense"}, .group = comm::Communicator::Alone()})
                         .value();
  const std::shared_ptr<attention::PlannedAttention> plan =
      dense->Plan(comm::Layout::Create({tokens}, {1}).value()).value();
  objectives::LogProbOptions log_prob;
  log_prob.matmul_dtype = dtype;
  testing::LiveBytes live;
  for (auto _ : state) {
    at::AutoGradMode mode(!forward_alone);
    options.noise->step += 1;
    const at::Tensor hidden = model->Forward(ids, positions, plan, options).hidden_TD;
    const at::Tensor loss =
        -objectives::TokenLogProb(hidden, model->head(), targets, log_prob).sum() /
        static_cast<double>(tokens - 1);
    if (!forward_alone) loss.backward();
    for (const auto& parameter : learning) parameter->ClearGradient();
  }
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens),
                                                  benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak MB"] =
      static_cast<double>(live.peak()) / 1e6;  // in addition to the weights, on the calling thread
}

BENCHMARK(Step)
    ->ArgNames({"tokens", "bf16", "keep", "forward", "finetuning"})
    ->Args({512, 0, 0, 0, kFull})
    ->Args({2048, 0, 0, 0, kFull})
    ->Args({4096, 0, 0, 0, kFull})
    ->Args({512, 1, 0, 0, kFull})
    ->Args({2048, 1, 0, 0, kFull})
    ->Args({2048, 0, 1, 0, kFull})
    ->Args({2048, 0, 0, 1, kFull})
    ->Args({2048, 0, 0, 0, kLora})
    ->Args({2048, 0, 1, 0, kLora})
    ->Args({512, 0, 0, 0, kLora})
    ->Args({512, 0, 0, 0, kLoraDropout})
    ->Args({512, 0, 0, 0, kDora})
    ->Unit(benchmark::kSecond)
    ->UseRealTime();

}  // namespace
}  // namespace moonring::model

BENCHMARK_MAIN();
