#include "tests/scripts/workplace.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kHidden = 32, kInner = 64, kHeadDim = 8, kLayers = 2, kVocabulary = 675;

// Returns values in [-scale, scale) from a linear congruential generator, equal on every machine.
StoredTensor Uniform(std::vector<int64_t> shape, double scale, uint64_t* state) {
  StoredTensor tensor{.shape = std::move(shape)};
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) numel *= size;
  for (int64_t i = 0; i < numel; ++i) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    tensor.values.push_back(
        static_cast<float>(scale * (static_cast<double>(*state >> 33) / (1u << 30) - 1)));
  }
  return tensor;
}

}  // namespace

StoredTensors TinyWeights(int heads, int kv_heads) {
  uint64_t state = 7;
  StoredTensors weights;
  weights["model.embed_tokens.weight"] = Uniform({kVocabulary, kHidden}, 0.15, &state);
  weights["model.norm.weight"] = {.shape = {kHidden}, .values = std::vector<float>(kHidden, 1)};
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
      weights[prefix + norm] = weights["model.norm.weight"];
    const auto add = [&](const char* name, int64_t rows, int64_t columns) {
      weights[prefix + name + ".weight"] = Uniform({rows, columns}, 0.2, &state);
    };
    add("self_attn.q_proj", heads * kHeadDim, kHidden);
    add("self_attn.k_proj", kv_heads * kHeadDim, kHidden);
    add("self_attn.v_proj", kv_heads * kHeadDim, kHidden);
    add("self_attn.o_proj", kHidden, heads * kHeadDim);
    add("mlp.gate_proj", kInner, kHidden);
    add("mlp.up_proj", kInner, kHidden);
    add("mlp.down_proj", kHidden, kInner);
  }
  return weights;
}

std::string SafetensorsHeader(const StoredTensors& tensors) {
  json header = json::object();
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t end = offset + 4 * tensor.values.size();
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header.dump();
}

std::string SafetensorsFile(const std::string& header, const StoredTensors& tensors) {
  const uint64_t size = header.size();
  std::string file(reinterpret_cast<const char*>(&size), 8);
  file += header;
  for (const auto& [name, tensor] : tensors)
    file.append(reinterpret_cast<const char*>(tensor.values.data()), 4 * tensor.values.size());
  return file;
}

StoredTensors ReadSafetensors(const std::string& path) {
  const std::string file = ReadText(path);
  uint64_t size = 0;
  StoredTensors tensors;
  if (file.size() < 8) return tensors;
  std::memcpy(&size, file.data(), 8);
  const json header = json::parse(file.substr(8, size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = 8 + size + entry.at("data_offsets")[0].get<size_t>(),
                 end = 8 + size + entry.at("data_offsets")[1].get<size_t>();
    StoredTensor& tensor = tensors[name];
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    const std::string dtype = entry.at("dtype");
    if (dtype == "F32") {
      tensor.values.resize((end - begin) / 4);
      std::memcpy(tensor.values.data(), file.data() + begin, end - begin);
    } else if (dtype == "F64") {
      std::vector<double> doubles((end - begin) / 8);
      std::memcpy(doubles.data(), file.data() + begin, end - begin);
      tensor.values.assign(doubles.begin(), doubles.end());
    } else {
      ADD_FAILURE() << path << ": " << name << " is " << dtype;
    }
  }
  return tensors;
}

NamedGradient GradientIn(const StoredTensors& tensors, const std::string& name) {
  const StoredTensor& tensor = tensors.at(name);
  return {name, tensor.shape, {tensor.values.begin(), tensor.values.end()}};
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

json ReadJson(const std::string& path) {
  return json::parse(ReadText(path), nullptr, /*allow_exceptions=*/false);
}

std::vector<json> ReadJsonLines(const std::string& path) {
  std::istringstream text(ReadText(path));
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);)
    lines.push_back(json::parse(line, nullptr, /*allow_exceptions=*/false));
  return lines;
}

std::string Runfile(const std::string& path) { return fs::absolute(path); }

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return norm > 0         ? std::sqrt(difference / norm)
         : difference > 0 ? std::numeric_limits<double>::infinity()
                          : 0;
}

Workplace::Workplace() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name =
      std::string(test->test_suite_name()) + "_" + test->name() + "_" + std::to_string(getpid());
  for (char& letter : name) letter = letter == '/' ? '_' : letter;
  folder_ = fs::path(::testing::TempDir()) / name;
  fs::create_directories(folder_);
}

Workplace::~Workplace() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Workplace::Path(const std::string& name) const { return fs::path(folder_) / name; }

std::string Workplace::Write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(Path(name)).parent_path());
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

void Workplace::WriteModel(const std::string& name, const StoredTensors& weights,
                           const json& changed_config) const {
  json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"attention_bias", false},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"pad_token_id", 2},
                 {"head_dim", kHeadDim},
                 {"hidden_act", "silu"},
                 {"hidden_size", kHidden},
                 {"intermediate_size", kInner},
                 {"max_position_embeddings", 2048},
                 {"num_attention_heads", 4},
                 {"num_hidden_layers", kLayers},
                 {"num_key_value_heads", 2},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", true},
                 {"vocab_size", kVocabulary}};
  if (!changed_config.is_null()) config.update(changed_config);
  Write(name + "/config.json", config.dump(1) + "\n");
  Write(name + "/model.safetensors", SafetensorsFile(SafetensorsHeader(weights), weights));
  Write(name + "/tokenizer.json", ReadText("tests/golden/tokenizer/tiny/smollm2.tokenizer.json"));
  Write(name + "/tokenizer_config.json",
        R"({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"})");
  Write(name + "/generation_config.json", R"({"eos_token_id": 2, "max_new_tokens": 40})");
}

void Workplace::WriteConfig(const std::string& more) const {
  std::string rows;
  for (int i = 0; i < 10; ++i) {
    std::string answer;
    for (int word = 0; word < 1 + (i * i * 7) % 60; ++word)
      answer += " moon " + std::to_string(word * i);
    rows += json{{"instruction", "Tell me of number " + std::to_string(i)},
                 {"input", i % 3 == 0 ? "briefly" : ""},
                 {"output", answer}}
                .dump() +
            "\n";
  }
  Write("data/rows.jsonl", rows);
  Write("data/dataset_info.json", R"({"rows": {"file_name": "rows.jsonl"}})");
  std::map<std::string, std::string> keys = {{"stage", "sft"},
                                             {"do_train", "true"},
                                             {"finetuning_type", "full"},
                                             {"model_name_or_path", "model"},
                                             {"dataset", "rows"},
                                             {"dataset_dir", "data"},
                                             {"template", "smollm2"},
                                             {"cutoff_len", "256"},
                                             {"output_dir", "out"},
                                             {"per_device_train_batch_size", "2"},
                                             {"gradient_accumulation_steps", "2"},
                                             {"learning_rate", "2.0e-3"},
                                             {"lr_scheduler_type", "cosine"},
                                             {"max_steps", "3"},
                                             {"logging_steps", "1"},
                                             {"report_to", "none"}};
  std::istringstream lines(more);
  for (std::string line; std::getline(lines, line);)
    keys[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
  std::string text;
  for (const auto& [key, value] : keys) text += key + ": " + value + "\n";
  Write("config.yaml", text);
}

CommandOptions Workplace::Options(std::vector<std::string> arguments) const {
  return {.arguments = std::move(arguments),
          .environment = {{"OMP_NUM_THREADS", "1"}},
          .folder = folder_};
}

CommandResult Workplace::Run(std::vector<std::string> arguments) const {
  return RunMoonring(Options(std::move(arguments)));
}

}  // namespace moonring::testing
