// Compares the memory that `moonring plan` predicts for a GPU with the peak of a run of two steps
// on the pretend device (a simulated GPU). Every kind of run is covered, with shapes that are small
// enough for a CPU but so wide that tensors dominate.
//
// Both numbers are bytes of tensors and of kernels' workspace, in blocks of 512 bytes as LibTorch's
// allocator returns them. Both exclude cuBLAS's 32 MiB, CUDA's context, and memory that the
// allocator keeps unused. The runs skip matrix products (left_out.h), which take most of the time
// and do not change the memory, except where a result determines how much memory is needed
// (experts). The largest run skips all work on tensors.
//
// For experts the test also counts how often a step of such a run waits for the GPU.
//
// The test prints the rows of the table in docs/gpu-design.md:
//   bazel test //tests/scripts:pretend_plan_test --test_output=all | grep '^|'

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

constexpr double kMebibyte = 1 << 20;
constexpr int64_t kProductsWorkspace = int64_t{32} << 20;  // pretend_device/kernels.cc

struct Shape {
  int64_t hidden, inner, layers, heads, kv_heads, vocabulary;
  int64_t experts = 0;
  bool softcap = false;
  bool stacked = false;  // a layer's experts in two tensors, as in Qwen3-VL-MoE
};

constexpr Shape kTiny{64, 192, 4, 4, 2, 704};
constexpr Shape kSmall{256, 704, 6, 4, 2, 1024};
// The heads of Llama-8B: at 65,536 tokens the backward of attention processes them in slices.
constexpr Shape kWide{4096, 256, 3, 32, 8, 2048};
constexpr Shape kSmol{576, 1536, 4, 9, 3, 8192};  // SmolLM2-135M's widths, a few of its layers

Shape WithLayers(Shape shape, int64_t layers, int64_t experts = 0, bool softcap = false) {
  shape.layers = layers;
  shape.experts = experts;
  shape.softcap = softcap;
  return shape;
}

Shape Stacked(Shape shape, int64_t layers, int64_t experts) {
  shape = WithLayers(shape, layers, experts);
  shape.stacked = true;
  return shape;
}

struct Case {
  std::string name, words;
  Shape shape;
  int64_t tokens;
  std::string keys;
  int ranks = 1;
  std::string products = "zeros";  // PRETEND_DEVICE_PRODUCTS
};

const char kLora[] = "finetuning_type: lora\nlora_rank: 8\nlora_target: all\nbf16: true";

std::vector<Case> Cases() {
  return {
      {"Tiny", "tiny, fp32", kTiny, 1024, "max_grad_norm: 1.0"},
      {"Bf16", "SmolLM2's widths, bf16", kSmol, 2048, "bf16: true"},
      {"MicroBatches", "SmolLM2's widths, bf16, two micro-batches", kSmol, 1024,
       "bf16: true\ngradient_accumulation_steps: 2\nmicro_batch_tokens: 1024"},
      {"NoRecompute", "SmolLM2's widths, bf16, recompute: none", kSmol, 1024,
       "bf16: true\nrecompute: none"},
      {"Fp32", "SmolLM2's widths, fp32", kSmol, 1024, "bf16: false"},
      {"Lora", "LoRA, bf16", kSmall, 4096, kLora},
      {"Dora", "DoRA, bf16", kSmall, 4096, std::string(kLora) + "\nuse_dora: true"},
      {"Dpo", "DPO with a reference, bf16", kSmol, 512, "bf16: true\nstage: dpo\ndataset: pairs"},
      {"Experts", "4 experts, 2 a token, fp32", WithLayers(kSmall, 2, 4), 1024, "bf16: false", 1,
       "all"},
      {"StackedExperts", "4 experts in two tensors a layer, 2 a token, fp32", Stacked(kSmall, 2, 4),
       256, "bf16: false", 1, "all"},
      {"GroupedExperts", "4 experts in two tensors a layer, 2 a token, bf16", Stacked(kSmall, 2, 4),
       256, "bf16: true", 1, "all"},
      {"GroupedRows", "4 experts in two tensors a layer, 2 a token, bf16", Stacked(kSmall, 2, 4),
       4096, "bf16: true", 1, "all"},
      {"Softcap", "softcaps, bf16", WithLayers(kSmol, 2, 0, true), 1024, "bf16: true"},
      {"OptimizerOnHost", "offload_optimizer: cpu, bf16", kSmol, 512,
       "bf16: true\noffload_optimizer: cpu"},
      {"GradientsOnHost", "offload_optimizer: cpu, bf16, two micro-batches", kSmol, 512,
       "bf16: true\noffload_optimizer: cpu\ngradient_accumulation_steps: 2\n"
       "micro_batch_tokens: 512"},
      {"OptimizerOnHostFp32", "offload_optimizer: cpu, fp32", kSmol, 512, "offload_optimizer: cpu"},
      {"WeightsOnHost", "offload_weights and offload_optimizer: cpu, bf16", WithLayers(kSmol, 8),
       512, "bf16: true\noffload_optimizer: cpu\noffload_weights: cpu"},
      {"AllOnHost", "the same, activation_offload: cpu", WithLayers(kSmol, 8), 4096,
       "bf16: true\noffload_optimizer: cpu\noffload_weights: cpu\nactivation_offload: cpu"},
      {"LoraOnHost", "LoRA, bf16, offload_weights: cpu", kSmol, 512,
       std::string(kLora) + "\noffload_weights: cpu"},
      {"CastsAtLeases", "bf16, cast_weights: lease", kSmol, 512, "bf16: true\ncast_weights: lease"},
      {"LeasesInMicroBatches", "bf16, cast_weights: lease, two micro-batches", kSmol, 512,
       "bf16: true\ncast_weights: lease\ngradient_accumulation_steps: 2\n"
       "micro_batch_tokens: 512"},
      {"StateInBf16", "bf16, optimizer_state: bf16", WithLayers(kSmol, 8), 512,
       "bf16: true\noptimizer_state: bf16"},
      {"StateIn8Bit", "bf16, optimizer_state: 8bit", WithLayers(kSmol, 8), 512,
       "bf16: true\noptimizer_state: 8bit"},
      {"ActivationsOnHost", "activation_offload: cpu, bf16", WithLayers(kSmall, 16), 4096,
       "bf16: true\nactivation_offload: cpu"},
      {"Zero3", "zero_stage: 3, bf16, a rank of 2", kSmol, 512, "bf16: true\nzero_stage: 3", 2},
      {"Freeze", "freeze: 2 of 4 layers trained, bf16", kSmol, 1024,
       "bf16: true\nfinetuning_type: freeze\nfreeze_trainable_layers: 2"},
      {"Long", "a long document, bf16", kTiny, 8192, "bf16: true"},
      {"Slices", "Llama-8B's heads, all on the host, bf16", kWide, 1 << 16,
       "bf16: true\noffload_optimizer: cpu\noffload_weights: cpu\nactivation_offload: cpu\n"
       "attention_kernels: flash",
       1, "counted"},
  };
}

// Returns random values whose scale makes a product's elements about as large as its input's.
StoredTensor Random(std::vector<int64_t> dims, uint64_t* state) {
  StoredTensor tensor{.shape = std::move(dims)};
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) numel *= size;
  tensor.values.resize(numel);
  for (float& value : tensor.values) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    value = 0.05f * (static_cast<float>(*state >> 40) / (1 << 23) - 1);
  }
  return tensor;
}

StoredTensors Weights(const Shape& s) {
  const int64_t head_dim = s.hidden / s.heads;
  uint64_t state = 11;
  StoredTensors weights;
  const StoredTensor ones{.shape = {s.hidden}, .values = std::vector<float>(s.hidden, 1)};
  const std::string text = s.stacked ? "model.language_model." : "model.";
  weights[text + "embed_tokens.weight"] = Random({s.vocabulary, s.hidden}, &state);
  weights[text + "norm.weight"] = ones;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string prefix = text + "layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
      weights[prefix + name + ".weight"] = Random({rows, columns}, &state);
    };
    std::vector<std::string> norms = {"input_layernorm", "post_attention_layernorm"};
    if (s.softcap)
      norms.insert(norms.end(), {"pre_feedforward_layernorm", "post_feedforward_layernorm"});
    for (const std::string& norm : norms) weights[prefix + norm + ".weight"] = ones;
    add("self_attn.q_proj", s.heads * head_dim, s.hidden);
    add("self_attn.k_proj", s.kv_heads * head_dim, s.hidden);
    add("self_attn.v_proj", s.kv_heads * head_dim, s.hidden);
    add("self_attn.o_proj", s.hidden, s.heads * head_dim);
    if (s.stacked) {
      const StoredTensor head_norm{.shape = {head_dim}, .values = std::vector<float>(head_dim, 1)};
      for (const char* norm : {"self_attn.q_norm", "self_attn.k_norm"})
        weights[prefix + norm + ".weight"] = head_norm;
      add("mlp.gate", s.experts, s.hidden);
      weights[prefix + "mlp.experts.gate_up_proj"] =
          Random({s.experts, s.hidden, 2 * s.inner}, &state);
      weights[prefix + "mlp.experts.down_proj"] = Random({s.experts, s.inner, s.hidden}, &state);
      continue;
    }
    if (s.experts > 0) add("block_sparse_moe.gate", s.experts, s.hidden);
    for (int64_t expert = 0; expert < std::max<int64_t>(s.experts, 1); ++expert) {
      const bool mixture = s.experts > 0;
      const std::string mlp =
          mixture ? "block_sparse_moe.experts." + std::to_string(expert) + "." : "mlp.";
      add(mlp + (mixture ? "w1" : "gate_proj"), s.inner, s.hidden);
      add(mlp + (mixture ? "w3" : "up_proj"), s.inner, s.hidden);
      add(mlp + (mixture ? "w2" : "down_proj"), s.hidden, s.inner);
    }
  }
  return weights;
}

json Config(const Shape& s) {
  json config = {{"head_dim", s.hidden / s.heads},     {"hidden_size", s.hidden},
                 {"intermediate_size", s.inner},       {"num_hidden_layers", s.layers},
                 {"num_attention_heads", s.heads},     {"num_key_value_heads", s.kv_heads},
                 {"max_position_embeddings", 1 << 16}, {"vocab_size", s.vocabulary}};
  if (s.stacked) {
    json text = config;
    text.update({{"model_type", "qwen3_vl_moe_text"},
                 {"num_experts", s.experts},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", s.inner},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", true}});
    config.update({{"architectures", {"Qwen3VLMoeForConditionalGeneration"}},
                   {"model_type", "qwen3_vl_moe"},
                   {"text_config", text}});
    return config;
  }
  if (s.experts > 0) {
    config.update({{"architectures", {"MixtralForCausalLM"}},
                   {"model_type", "mixtral"},
                   {"num_local_experts", s.experts},
                   {"num_experts_per_tok", 2},
                   {"sliding_window", nullptr}});
  }
  if (s.softcap) {
    config.update({{"architectures", {"Gemma2ForCausalLM"}},
                   {"model_type", "gemma2"},
                   {"attn_logit_softcapping", 50.0},
                   {"final_logit_softcapping", 30.0},
                   {"query_pre_attn_scalar", s.hidden / s.heads},
                   {"sliding_window", 1 << 16},
                   {"hidden_activation", "gelu_pytorch_tanh"}});
  }
  return config;
}

class PretendRuns : public Workplace {
 protected:
  // Writes rows of more than `tokens` tokens, so that each example is truncated to the same length.
  void WriteRows(int64_t tokens) const {
    std::string answer, rows, pairs;
    for (int64_t word = 0; word < tokens; ++word) answer += " moon";
    const json question = {{{"from", "human"}, {"value", "Go on."}}};
    const json said = {{"from", "gpt"}, {"value", answer}};
    for (int row = 0; row < 4; ++row) {
      rows += json{{"instruction", "Go on."}, {"input", ""}, {"output", answer}}.dump() + "\n";
      pairs +=
          json{{"conversations", question}, {"chosen", said}, {"rejected", said}}.dump() + "\n";
    }
    Write("data/rows.jsonl", rows);
    Write("data/pairs.jsonl", pairs);
    const json columns = {
        {"messages", "conversations"}, {"chosen", "chosen"}, {"rejected", "rejected"}};
    const json info = {{"rows", {{"file_name", "rows.jsonl"}}},
                       {"pairs",
                        {{"file_name", "pairs.jsonl"},
                         {"formatting", "sharegpt"},
                         {"ranking", true},
                         {"columns", columns}}}};
    Write("data/dataset_info.json", info.dump());
  }

  // Runs a case and returns the greatest peak of its ranks. `out` is the run's folder.
  double Peak(const Case& of, const std::string& products, const std::string& out) const {
    const std::string ranks = std::to_string(of.ranks);
    CommandOptions options =
        Options({"-n", ranks, "--device", "cuda", "train", "config.yaml", "output_dir=" + out});
    options.environment.insert({{"PRETEND_DEVICES", ranks},
                                {"PRETEND_DEVICE_REPORT", Path(out + ".report")},
                                {"PRETEND_DEVICE_MEMORY", std::to_string(int64_t{64} << 30)},
                                {"PRETEND_DEVICE_PRODUCTS", products}});
    EXPECT_THAT(RunMoonring(std::move(options)), Succeeds());
    double peak = 0;
    for (int rank = 0; rank < of.ranks; ++rank) {
      const json report = ReadJson(Path(out + ".report." + std::to_string(rank)));
      peak = std::max(peak, report.at("peak_bytes").get<double>() - kProductsWorkspace);
    }
    return peak;
  }

  void WriteRun(const Case& of) const {
    WriteModel("model", Weights(of.shape), Config(of.shape));
    WriteConfig(
        "per_device_train_batch_size: 1\nsave_strategy: no\n"
        "max_steps: " +
        // Two staging buffers are used alternately: only from the third step on are both allocated.
        std::string(of.keys.find("offload_optimizer") == std::string::npos ? "2" : "3") +
        "\n"
        "cutoff_len: " +
        std::to_string(of.tokens) + "\n" +
        (of.keys.find("accumulation") == std::string::npos ? "gradient_accumulation_steps: 1\n"
                                                           : "") +
        of.keys);
    WriteRows(of.tokens);
  }
};

class PretendPlanTest : public PretendRuns, public ::testing::WithParamInterface<Case> {};

TEST_P(PretendPlanTest, IsPredicted) {
  const Case& of = GetParam();
  WriteRun(of);
  const double peak = Peak(of, of.products, "out");
  ASSERT_THAT(Run({Runfile("tests/scripts/plan_parts.lua"), "config.yaml",
                   "ranks=" + std::to_string(of.ranks), "out=plan.json"}),
              Succeeds());
  const json plan = ReadJson(Path("plan.json"));
  const double predicted = plan.at("total");
  std::printf("| %s | %lld | %s | %.1f | %.1f | %.3f |\n", of.words.c_str(),
              static_cast<long long>(of.tokens), plan.at("moment").get<std::string>().c_str(),
              predicted / kMebibyte, peak / kMebibyte, predicted / peak);
  EXPECT_NEAR(predicted / peak, 1.0, 0.05) << plan.dump(1) << ReadText(Path("out.report.0"));
}

// A run that skips its matrix products takes as much memory as one that computes them.
TEST_F(PretendRuns, ProductsChangeNothing) {
  for (const std::string& keys : {std::string("bf16: false"), std::string("bf16: true"),
                                  std::string(kLora) + "\nuse_dora: true"}) {
    const Case of{"", "", kTiny, 256, keys + "\noverwrite_output_dir: true"};
    WriteRun(of);
    EXPECT_EQ(Peak(of, "all", "with"), Peak(of, "zeros", "without")) << keys;
  }
}

// If the products of all experts are one grouped product, a step does not wait for the GPU. If each
// expert has its own product, each layer waits in the forward, and once more in its recomputation.
TEST_F(PretendRuns, GroupedExpertsAddNoWait) {
  const auto waits_of_step = [&](const Shape& shape, const std::string& kernels) {
    WriteRun({"", "", shape, 64, "bf16: true\noverwrite_output_dir: true"});
    const auto waits = [&](int steps) {
      CommandOptions options = Options({"--device", "cuda", "train", "config.yaml",
                                        "output_dir=out", "max_steps=" + std::to_string(steps)});
      options.environment.insert(
          {{"PRETEND_DEVICE_REPORT", Path("waits")}, {"MOONRING_KERNELS", kernels}});
      EXPECT_THAT(RunMoonring(std::move(options)), Succeeds());
      return ReadJson(Path("waits.0")).at("all_synchronizations").get<double>();
    };
    return (waits(6) - waits(2)) / 4;
  };
  const double dense = waits_of_step(WithLayers(kTiny, 2), "fused"),
               grouped = waits_of_step(Stacked(kTiny, 2, 4), "fused"),
               one_by_one = waits_of_step(Stacked(kTiny, 2, 4), "composed");
  std::printf("waits a step: %.1f, with experts %.1f, one by one %.1f\n", dense, grouped,
              one_by_one);
  EXPECT_EQ(grouped, dense);
  EXPECT_EQ(one_by_one, dense + 2 * 2);
}

INSTANTIATE_TEST_SUITE_P(Runs, PretendPlanTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace moonring::testing
