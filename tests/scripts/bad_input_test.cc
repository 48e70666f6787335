// An error in a model, a data set, a configuration or the input of probe is reported in one line
// with its position, before the first step (exit code 2), without C++ internals.

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kWeight[] = "model.layers.0.mlp.up_proj.weight";

class BadModelTest : public Workplace {
 protected:
  BadModelTest() { Write("in.json", R"({"input_ids": [1, 2, 3], "labels": [1, 2, 3]})"); }

  CommandResult Probe(const std::string& model) const {
    return Run({"probe", "model_name_or_path=" + model, "input=in.json", "out=out.json"});
  }

  CommandResult ProbeWithFile(const std::string& file) const {
    WriteModel("bad");
    Write("bad/model.safetensors", file);
    return Probe("bad");
  }

  // Runs probe on a model after `change` has modified the JSON header of its safetensors file.
  CommandResult ProbeWithHeader(const std::function<void(json&)>& change) const {
    const StoredTensors weights = TinyWeights();
    json header = json::parse(SafetensorsHeader(weights));
    change(header);
    return ProbeWithFile(SafetensorsFile(header.dump(), weights));
  }
};

TEST_F(BadModelTest, MissingFiles) {
  EXPECT_THAT(Probe("nowhere"), FailsWith(2, HasSubstr("no folder or file 'nowhere'")));
  EXPECT_THAT(Run({"chat", "nowhere"}), FailsWith(2, HasSubstr("no folder or file 'nowhere'")));
  EXPECT_THAT(Probe("builtin:smollm3"),
              FailsWith(2, HasSubstr("no built-in 'smollm3'; there is: smollm2")));
  std::filesystem::create_directory(Path("empty"));
  EXPECT_THAT(Probe("empty"),
              FailsWith(2, HasSubstr("empty: neither config.json nor a .gguf file")));
  WriteModel("bad");
  std::filesystem::remove(Path("bad/model.safetensors"));
  EXPECT_THAT(Probe("bad"),
              FailsWith(2, HasSubstr("bad: no model.safetensors and no pytorch_model.bin")));
  WriteModel("bad");
  WriteConfig("model_name_or_path: bad");
  std::filesystem::remove(Path("bad/tokenizer.json"));
  EXPECT_THAT(Run({"train", "config.yaml"}), FailsWith(2, HasSubstr("bad: no tokenizer.json")));
}

TEST_F(BadModelTest, Safetensors) {
  const StoredTensors weights = TinyWeights();
  const std::string header = SafetensorsHeader(weights), whole = SafetensorsFile(header, weights);
  const auto long_header = [&](uint64_t size) {
    std::string file = whole;
    std::memcpy(file.data(), &size, 8);
    return file;
  };
  const std::string place = "bad/model.safetensors: ";
  EXPECT_THAT(ProbeWithFile(""), FailsWith(2, StartsWith(place)));
  EXPECT_THAT(ProbeWithFile(whole.substr(0, 5)),
              FailsWith(2, AllOf(StartsWith(place), HasSubstr("truncated?"))));
  EXPECT_THAT(ProbeWithFile(whole.substr(0, 500)), FailsWith(2, StartsWith(place)));
  EXPECT_THAT(ProbeWithFile(whole.substr(0, whole.size() - 100)),
              FailsWith(2, AllOf(StartsWith(place), HasSubstr("truncated?"))));
  EXPECT_THAT(ProbeWithFile(long_header(whole.size())), FailsWith(2, StartsWith(place)));
  EXPECT_THAT(ProbeWithFile(long_header(uint64_t{1} << 40)),
              FailsWith(2, AllOf(StartsWith(place), HasSubstr("1099511627776 bytes"))));
  EXPECT_THAT(ProbeWithFile(long_header(~uint64_t{0})), FailsWith(2, StartsWith(place)));
  EXPECT_THAT(ProbeWithFile(SafetensorsFile("hello", weights)),
              FailsWith(2, AllOf(StartsWith(place), HasSubstr("line 1, column 1"))));
  EXPECT_THAT(ProbeWithFile(SafetensorsFile("[1]", weights)),
              FailsWith(2, AllOf(StartsWith(place), HasSubstr("expected an object"))));
  EXPECT_THAT(ProbeWithFile(SafetensorsFile("{\"a\":" + std::string(200'000, '['), weights)),
              FailsWith(2, StartsWith(place)));

  const auto of_weight = [&](const char* words) {
    return FailsWith(2, AllOf(StartsWith(place + kWeight + ": "), HasSubstr(words)));
  };
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h[kWeight]["data_offsets"] = {-8, 100};
              }),
              of_weight("none negative, got [-8,100]"));
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h[kWeight]["data_offsets"] = {8, 0};
              }),
              of_weight("expected [begin, end], got [8,0]"));
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h[kWeight]["data_offsets"] =
                    h["model.layers.0.mlp.gate_proj.weight"]["data_offsets"];
              }),
              FailsWith(2, HasSubstr("inside another tensor")));
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h["model.norm.weight"]["data_offsets"] = {1'000'000'000, 1'000'000'128};
              }),
              FailsWith(2, StartsWith(place)));
  EXPECT_THAT(ProbeWithHeader([](json& h) { h[kWeight]["dtype"] = "F16"; }),
              of_weight("takes 4096 bytes, but data_offsets give 8192"));
  EXPECT_THAT(ProbeWithHeader([](json& h) { h[kWeight]["dtype"] = "Q7"; }),
              of_weight("unknown dtype 'Q7'"));
  EXPECT_THAT(ProbeWithHeader([](json& h) { h[kWeight] = 3; }),
              of_weight("expected an object, got 3"));
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h[kWeight]["shape"] = {32, 64};
              }),
              of_weight("expected shape [64, 32], found [32, 64]"));
  EXPECT_THAT(ProbeWithHeader([](json& h) {
                h[kWeight]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
              }),
              of_weight("more than 2^64 bytes"));
  StoredTensors lacking = TinyWeights();
  lacking.erase(kWeight);
  EXPECT_THAT(ProbeWithFile(SafetensorsFile(SafetensorsHeader(lacking), lacking)),
              FailsWith(2, HasSubstr(kWeight)));
}

TEST_F(BadModelTest, Config) {
  const auto with = [&](const json& change) {
    WriteModel("bad", TinyWeights(), change);
    return Probe("bad");
  };
  const auto with_text = [&](const std::string& text) {
    WriteModel("bad");
    Write("bad/config.json", text);
    return Probe("bad");
  };
  EXPECT_THAT(with({{"architectures", {"GPTJForCausalLM"}}}),
              FailsWith(2, HasSubstr("bad/config.json: architectures: 'GPTJForCausalLM' is not "
                                     "supported; supported: LlamaForCausalLM, ")));
  EXPECT_THAT(with({{"architectures", {"Qwen3ForCasualLM"}}}),
              FailsWith(2, HasSubstr("did you mean 'Qwen3ForCausalLM'?")));
  EXPECT_THAT(with({{"rope_scaling", {{"rope_type", "yran"}, {"factor", 2.0}}}}),
              FailsWith(2, HasSubstr("rope_type: 'yran' is not known")));
  EXPECT_THAT(with({{"quantization_config", {{"quant_method", "awq"}}}}),
              FailsWith(2, HasSubstr("bad/config.json: quantization_config (awq): ")));
  EXPECT_THAT(
      with({{"hidden_size", "x"}}),
      FailsWith(2, HasSubstr("bad/config.json: hidden_size: expected a whole number, got \"x\"")));
  EXPECT_THAT(with({{"hidden_size", 33}}),
              FailsWith(2, HasSubstr("expected shape [675, 33], found [675, 32]")));
  EXPECT_THAT(with({{"num_hidden_layers", 3}}), FailsWith(2, HasSubstr("model.layers.2.")));
  EXPECT_THAT(with({{"num_key_value_heads", 3}}), FailsWith(2, StartsWith("bad/config.json: ")));
  EXPECT_THAT(with_text("{\n \"hidden_size\": 32\n \"x\": 1}\n"),
              FailsWith(2, AllOf(StartsWith("bad/config.json: "), HasSubstr("line 3"))));
  EXPECT_THAT(with_text("{}"), FailsWith(2, StartsWith("bad/config.json: ")));
  EXPECT_THAT(with_text(""), FailsWith(2, StartsWith("bad/config.json: ")));
}

// A run that diverged may have written NaN weights.
TEST_F(BadModelTest, NonFiniteNumbers) {
  StoredTensors weights = TinyWeights();
  weights.at(kWeight).values[2] = std::numeric_limits<double>::quiet_NaN();
  weights.at(kWeight).values[3] = std::numeric_limits<double>::infinity();
  weights.at("model.norm.weight").values[0] = std::numeric_limits<double>::quiet_NaN();
  WriteModel("bad", weights);
  EXPECT_THAT(
      Probe("bad"),
      FailsWith(2, AllOf(HasSubstr("bad: 2 tensors have numbers that are NaN or infinite: "),
                         HasSubstr(std::string(kWeight) + " (2 of "),
                         HasSubstr("model.norm.weight (1 of 32)"))));
}

TEST_F(BadModelTest, MissingTensors) {
  StoredTensors weights = TinyWeights();
  weights.erase(kWeight);
  WriteModel("bad", weights);
  EXPECT_THAT(Probe("bad"),
              FailsWith(2, AllOf(StartsWith("bad: the tensor " + std::string(kWeight) + " ["),
                                 HasSubstr("] is missing"))));
  weights.erase("model.norm.weight");
  weights.erase("model.layers.1.input_layernorm.weight");
  WriteModel("bad", weights);
  EXPECT_THAT(Probe("bad"), FailsWith(2, HasSubstr("is missing, and 2 more, such as model.")));
}

TEST_F(BadModelTest, Tokenizer) {
  const auto with = [&](const char* name, const char* text) {
    WriteModel("bad");
    Write(std::string("bad/") + name, text);
    WriteConfig("model_name_or_path: bad");
    return Run({"train", "config.yaml"});
  };
  EXPECT_THAT(with("tokenizer.json", "{\n"), FailsWith(2, StartsWith("bad/tokenizer.json:2:1: ")));
  EXPECT_THAT(with("tokenizer.json", "{\"a\": 1}"),
              FailsWith(2, StartsWith("bad/tokenizer.json: model: ")));
  EXPECT_THAT(with("tokenizer_config.json", "{\n\"a\" 1}"),
              FailsWith(2, StartsWith("bad/tokenizer_config.json:2:")));
  EXPECT_THAT(
      with("tokenizer_config.json", R"({"added_tokens_decoder": 7})"),
      FailsWith(2,
                StartsWith("bad/tokenizer_config.json: added_tokens_decoder: expected an object")));
}

TEST_F(BadModelTest, Gguf) {
  const std::string begin =
      ReadText("external/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf").substr(0, 3'000'000);
  const auto with = [&](const std::string& text) {
    Write("bad.gguf", text);
    return Probe("bad.gguf");
  };
  const auto number = [&](size_t at, uint64_t value) {
    std::string text = begin;
    std::memcpy(text.data() + at, &value, 8);
    return text;
  };
  EXPECT_THAT(with(""), FailsWith(2, StartsWith("bad.gguf: not a valid GGUF file")));
  EXPECT_THAT(with(begin.substr(0, 20)),
              FailsWith(2, AllOf(StartsWith("bad.gguf: "), HasSubstr("truncated?"))));
  EXPECT_THAT(with(begin.substr(0, 1000)),
              FailsWith(2, AllOf(StartsWith("bad.gguf: "), HasSubstr("truncated?"))));
  EXPECT_THAT(with(begin), FailsWith(2, AllOf(StartsWith("bad.gguf: "), HasSubstr("truncated?"))));
  EXPECT_THAT(with("GGML" + begin.substr(4)), FailsWith(2, HasSubstr("does not begin with GGUF")));
  EXPECT_THAT(with(number(8, uint64_t{1} << 62)),
              FailsWith(2, HasSubstr("number of tensors is 4611686018427387904")));
  EXPECT_THAT(with(number(16, uint64_t{1} << 62)),
              FailsWith(2, HasSubstr("number of metadata values is 4611686018427387904")));
  EXPECT_THAT(with(number(24, ~uint64_t{0})), FailsWith(2, StartsWith("bad.gguf: ")));
  const size_t query = begin.find("blk.0.attn_q.weight") + std::strlen("blk.0.attn_q.weight");
  EXPECT_THAT(with(number(query + 4, uint64_t{1} << 60)),
              FailsWith(2, HasSubstr("blk.0.attn_q.weight has an impossible size")));
  EXPECT_THAT(with(number(query + 20, 999)),
              FailsWith(2, HasSubstr("blk.0.attn_q.weight has the unknown type 999")));
}

TEST_F(BadModelTest, ProbeInput) {
  WriteModel("model");
  const auto with = [&](const char* text) {
    Write("in.json", text);
    return Probe("model");
  };
  EXPECT_THAT(with("{\"input_ids\": [1, 2,\n 3 4]}"), FailsWith(2, StartsWith("in.json:2:4: ")));
  EXPECT_THAT(with(""), FailsWith(2, StartsWith("in.json:1:1: ")));
  EXPECT_THAT(with("[1]"),
              FailsWith(2, "in.json: expected an object {...} with input_ids and labels"));
  EXPECT_THAT(
      with("{}"),
      FailsWith(2, HasSubstr("in.json: input_ids: expected a list of integers, got nothing")));
  EXPECT_THAT(with(R"({"input_ids": [], "labels": []})"),
              FailsWith(2, HasSubstr("in.json: input_ids is empty")));
  EXPECT_THAT(with(R"({"input_ids": [1, 2], "labels": [1]})"),
              FailsWith(2, "in.json: 1 labels for 2 input_ids"));
  EXPECT_THAT(with(R"({"input_ids": [1, 675], "labels": [1, 1]})"),
              FailsWith(2, "in.json: input_ids[1]: expected 0 to 674, got 675"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "labels": [-1, 1]})"),
              FailsWith(2, "in.json: labels[0]: expected 0 to 674 or -100, got -1"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1.5], "labels": [1, 1]})"),
              FailsWith(2, "in.json: input_ids[1]: expected an integer, got 1.5"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "labels": [1, null]})"),
              FailsWith(2, "in.json: labels[1]: expected an integer, got null"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "labels": [1, 1], "lengths": [1]})"),
              FailsWith(2, "in.json: lengths sum to 1, there are 2 input_ids"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "labels": [1, 1], "lengths": [3, -1]})"),
              FailsWith(2, HasSubstr("in.json: lengths[1]: expected at least 0, got -1")));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "labels": [1, 1], "positions": [2]})"),
              FailsWith(2, "in.json: positions[0]: expected 0 to 1, got 2"));
  EXPECT_THAT(with(R"({"input_ids": [1, 1], "label": [1, 1]})"),
              FailsWith(2, "in.json: unknown key 'label' (did you mean 'labels'?)"));
  EXPECT_THAT(Run({"probe", "model_name_or_path=model", "input=none.json", "out=out.json"}),
              FailsWith(2, HasSubstr("none.json")));
}

class BadDataTest : public Workplace {
 protected:
  BadDataTest() {
    WriteModel("model");
    WriteConfig("dataset: d");
  }

  CommandResult With(const std::string& rows, std::vector<std::string> more = {},
                     const char* info = R"({"d": {"file_name": "d.json"}})") const {
    Write("data/dataset_info.json", info);
    Write("data/d.json", rows);
    more.insert(more.begin(), {"train", "config.yaml"});
    return Run(more);
  }
};

TEST_F(BadDataTest, Rows) {
  const std::string row = R"({"instruction": "a", "output": "b"})";
  EXPECT_THAT(With("[" + row + ",\n{\"instruction\" 1}]"),
              FailsWith(2, AllOf(HasSubstr("data set 'd': data/d.json:2:16 (row 2): "))));
  EXPECT_THAT(With(row + "\n" + row + "\n{\"instruction\":\n"),
              FailsWith(2, HasSubstr("data/d.json:3:")));
  EXPECT_THAT(With("[" + row),
              FailsWith(2, HasSubstr("data/d.json:1:37 (row 2): the file ends inside the array")));
  EXPECT_THAT(With("[{\"instruction\": \"\xff\", \"output\": \"b\"}]"),
              FailsWith(2, AllOf(HasSubstr("data/d.json:1:"), HasSubstr("UTF-8"))));
  EXPECT_THAT(With("[]"), FailsWith(2, "data set 'd': is empty: data/d.json has no row"));
  EXPECT_THAT(With(""), FailsWith(2, "data set 'd': is empty: data/d.json has no row"));
  EXPECT_THAT(
      With("[1]"),
      FailsWith(2, "data set 'd': data/d.json:1 (row 1): a row must be an object, got number"));
  EXPECT_THAT(
      With("[" + row + ",\n{\"instruction\": 1, \"output\": \"b\"}]"),
      FailsWith(2,
                "data set 'd': data/d.json:2 (row 2): 'instruction' must be a string, got number"));
  EXPECT_THAT(With(R"([{"instruction": "a", "output": ["b"]}])"),
              FailsWith(2, HasSubstr("(row 1): 'output' must be a string, got array")));
  EXPECT_THAT(With(R"([{"instruction": "a", "output": "b", "h": "x"}])", {},
                   R"({"d": {"file_name": "d.json", "columns": {"prompt": "instruction", )"
                   R"("response": "output", "history": "h"}}})"),
              FailsWith(2, HasSubstr("(row 1): 'h' must be ")));
  EXPECT_THAT(
      With(R"([{"instruction": "a", "output": null}])"),
      FailsWith(
          2, HasSubstr("none of 1 rows gives an example; 1 no 'output', first at data/d.json:1")));
  EXPECT_THAT(With(R"([{"question": "a", "answer": "b"}])"),
              FailsWith(2, HasSubstr("no row has the key 'instruction'")));
  EXPECT_THAT(With(row, {"cutoff_len=2"}), FailsWith(2, HasSubstr("cutoff_len 2 is too small")));
  EXPECT_THAT(With(row, {"cutoff_len=0"}), FailsWith(2, "cutoff_len: expected at least 1, got 0"));
  EXPECT_THAT(With(row, {"overlong=error", "cutoff_len=9"}),
              FailsWith(2, HasSubstr("data/d.json:1 (row 1): has ")));
  EXPECT_THAT(With(row, {"max_samples=0"}), FailsWith(2, HasSubstr("max_samples")));
  EXPECT_THAT(With(row, {"template=smolm2"}),
              FailsWith(2, HasSubstr("no 'smolm2' (did you mean 'smollm2'?)")));
}

TEST_F(BadDataTest, DatasetInfo) {
  const std::string row = R"({"instruction": "a", "output": "b"})";
  const auto info = [&](const char* text) { return With(row, {}, text); };
  EXPECT_THAT(info("{\"d\":\n {\"file_name\" 1}}"),
              FailsWith(2, StartsWith("data/dataset_info.json:2:15: ")));
  EXPECT_THAT(info("[]"), FailsWith(2, HasSubstr("data/dataset_info.json: expected an object")));
  EXPECT_THAT(info("{}"), FailsWith(2, HasSubstr("no data set 'd'; there are none")));
  EXPECT_THAT(info(R"({"dd": {"file_name": "d.json"}, "other": {}})"),
              FailsWith(2, AllOf(HasSubstr("data/dataset_info.json: no data set 'd'"),
                                 HasSubstr("other"))));
  EXPECT_THAT(info(R"({"d": {"file_name": "e.json"}})"),
              FailsWith(2, HasSubstr("data set 'd': data/e.json: no such file")));
  EXPECT_THAT(info(R"({"d": {"file_nam": "d.json"}})"),
              FailsWith(2, HasSubstr("unknown key 'file_nam' (did you mean 'file_name'?)")));
  EXPECT_THAT(info(R"({"d": {"hf_hub_url": "a/b"}})"),
              FailsWith(2, AllOf(HasSubstr("data set 'd': hf_hub_url 'a/b': HF_HUB_OFFLINE is set"),
                                 HasSubstr("has no 'a/b'"))));
  EXPECT_THAT(info(R"({"d": {"ms_hub_url": "a/b"}})"),
              FailsWith(2, HasSubstr("'ms_hub_url' \"a/b\" is on the network")));
  EXPECT_THAT(info(R"({"d": {"file_name": "d.json", "formatting": "sharegpt"}})"),
              FailsWith(2, HasSubstr("no row has the key 'conversations'")));
  EXPECT_THAT(info(R"({"d": {"file_name": "d.json", "ranking": true}})"),
              FailsWith(2, HasSubstr("data set 'd': is a ranking data set")));
  EXPECT_THAT(
      With(row, {"dataset=alpaca_en_dem"}, R"({"alpaca_en_demo": {"file_name": "d.json"}})"),
      FailsWith(2, HasSubstr("(did you mean 'alpaca_en_demo'?)")));
  EXPECT_THAT(With(row, {"dataset_dir=nowhere"}),
              FailsWith(2, StartsWith("dataset_dir: nowhere/dataset_info.json: no such file")));
}

// Opening a named pipe would block until somebody writes to it, and a device may never end.
TEST_F(BadDataTest, PipesAndDevicesAreRefused) {
  Write("data/dataset_info.json", R"({"d": {"file_name": "d.json"}})");
  Write("data/d.json", R"([{"instruction": "a", "output": "b"}])");
  Write("mine.lua", R"(return { like = "chatml" })");
  const std::vector<std::string> files = {"config.yaml",
                                          "mine.lua",
                                          "data/dataset_info.json",
                                          "data/d.json",
                                          "model/config.json",
                                          "model/model.safetensors",
                                          "model/tokenizer.json",
                                          "model/tokenizer_config.json"};
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string path = Path(file), kept = path + ".kept";
    std::filesystem::rename(path, kept);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const CommandResult piped = Run({"train", "config.yaml", "template=./mine.lua"});
    EXPECT_THAT(piped,
                FailsWith(2, HasSubstr(file + " is a named pipe (FIFO), expected a regular file")));
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);
    const CommandResult endless = Run({"train", "config.yaml", "template=./mine.lua"});
    EXPECT_THAT(endless, FailsWith(2, HasSubstr(file + " is a device, expected a regular file")));
    std::filesystem::remove(path);
    std::filesystem::rename(kept, path);
  }
}

class BadConfigurationTest : public Workplace {
 protected:
  BadConfigurationTest() {
    WriteModel("model");
    WriteConfig();
  }

  // Runs train with `line` appended to the configuration, as line 17.
  CommandResult Line(const std::string& line, const std::vector<std::string>& words = {}) const {
    Write("line.yaml", ReadText(Path("config.yaml")) + line + "\n");
    std::vector<std::string> all = {"train", "line.yaml"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
  CommandResult Word(const std::string& word) const { return Run({"train", "config.yaml", word}); }
};

TEST_F(BadConfigurationTest, Keys) {
  EXPECT_THAT(
      Line("learning_rat: 1"),
      FailsWith(2, "line.yaml:17: unknown key 'learning_rat' (did you mean 'learning_rate'?)"));
  EXPECT_THAT(
      Word("learning_rat=1"),
      FailsWith(2, "learning_rat=1: unknown key 'learning_rat' (did you mean 'learning_rate'?)"));
  EXPECT_THAT(Line("use_llama_pro: true"),
              FailsWith(2, HasSubstr("line.yaml:17: not supported yet: use_llama_pro: true")));
  EXPECT_THAT(Line("asft_alpha: 0.2\nuse_llama_pro: true"),
              FailsWith(2, HasSubstr("line.yaml:18: not supported yet: use_llama_pro: true")));
  EXPECT_THAT(
      Word("export_quantization_bit=4"),
      FailsWith(2, HasSubstr("not supported yet: export_quantization_bit: 4 (export writes the")));
  EXPECT_THAT(
      Line("cp_size: 2\nsequence_parallel_size: 2"),
      FailsWith(
          2,
          "line.yaml:17: cp_size is another name of sequence_parallel_size, which is given too"));
  EXPECT_THAT(Run({"train", "config.yaml", "neat_packing=true", "stage=pt"}),
              FailsWith(2, HasSubstr("neat_packing is for stage sft alone")));
  EXPECT_THAT(Run({"train", "config.yaml", "packing=true", "stage=rm"}),
              FailsWith(2, HasSubstr("packing is for stages pt and sft alone")));
  EXPECT_THAT(Word("stage=ppo"), FailsWith(2, HasSubstr("not supported yet: stage: ppo")));
  EXPECT_THAT(Word("stray"), FailsWith(2, "expected key=value, got 'stray'"));
  EXPECT_THAT(Word("model_name_or_path="),
              FailsWith(2, "config.yaml: model_name_or_path is missing"));
  EXPECT_THAT(Word("output_dir="), FailsWith(2, "config.yaml: output_dir is missing"));
}

// The output_dir of an interrupted run has checkpoints and no model of its own.
TEST_F(BadConfigurationTest, AnInterruptedRunsFolderOffersItsNewestCheckpoint) {
  const std::string adapter = R"({"base_model_name_or_path": "model"})";
  for (const std::string step : {"2", "10", "20"}) {
    std::filesystem::create_directories(Path("run/checkpoint-" + step));
    Write("run/checkpoint-" + step + "/adapter_config.json", adapter);
    if (step != "20") Write("run/checkpoint-" + step + "/manifest.json", "{}");  // 20: incomplete
  }
  const std::string why =
      "no model here: a run in this folder was interrupted; its newest complete checkpoint is "
      "given by ";
  EXPECT_THAT(Run({"chat", "run"}),
              FailsWith(2, "run: " + why + "moonring chat run/checkpoint-10"));
  EXPECT_THAT(Line("adapter_name_or_path: run", {"finetuning_type=lora"}),
              FailsWith(2, HasSubstr("line.yaml:17: adapter_name_or_path: run: " + why +
                                     "adapter_name_or_path=run/checkpoint-10")));
  EXPECT_THAT(Run({"export", "model_name_or_path=run", "export_dir=x"}),
              FailsWith(2, "model_name_or_path: run: " + why +
                               "model_name_or_path=model adapter_name_or_path=run/checkpoint-10"));
  Write("run/checkpoint-10/config.json", "{}");
  Write("run/checkpoint-10/training_state.json", "{}");
  EXPECT_THAT(
      Word("model_name_or_path=run"),
      FailsWith(2, "model_name_or_path: run: " + why + "model_name_or_path=run/checkpoint-10"));
  EXPECT_THAT(Word("resume_from_checkpoint=run"),
              FailsWith(2, HasSubstr("the newest is run/checkpoint-10")));
}

TEST_F(BadConfigurationTest, DeepSpeed) {
  const auto with = [&](const std::string& text, const std::string& word = "seed=1") {
    Write("ds.json", text);
    return Run({"train", "config.yaml", "deepspeed=ds.json", "model_name_or_path=nothing", word});
  };
  EXPECT_THAT(Word("deepspeed=none.json"), FailsWith(2, HasSubstr("none.json")));
  WriteConfig("deepspeed: 3\n");
  EXPECT_THAT(
      Run({"train", "config.yaml"}),
      FailsWith(2, HasSubstr("deepspeed: expected a file or an object of settings, got 3")));
  WriteConfig();
  EXPECT_THAT(with("{\"zero_optimization\": {\"stage\": 3},"),
              FailsWith(2, HasSubstr("ds.json:1:")));
  EXPECT_THAT(with("[1]"), FailsWith(2, HasSubstr("ds.json: expected an object of settings")));
  EXPECT_THAT(
      with(R"({"zero_optimization": {"stage": 4}})"),
      FailsWith(
          2,
          HasSubstr("deepspeed: ds.json: zero_optimization.stage: expected 0, 1, 2 or 3, got 4")));
  EXPECT_THAT(with(R"({"gradient_clipping": 0.5})"),
              FailsWith(2, HasSubstr("deepspeed: ds.json: gradient_clipping is 0.5, but "
                                     "max_grad_norm is 1; expected \"auto\" or the same")));
  EXPECT_THAT(with(R"({"bf16": {"enabled": true}})"),
              FailsWith(2, HasSubstr("bf16.enabled is true, but bf16 is false")));
  EXPECT_THAT(with(R"({"fp16": {"enabled": "auto", "loss_scale": 128}})", "fp16=true"),
              FailsWith(2, HasSubstr("fp16.loss_scale is 128: a fixed scale is not supported; "
                                     "expected 0, which lets it grow and shrink")));
  const auto zero = [&](const std::string& settings, const std::string& word = "seed=1") {
    return with("{\"zero_optimization\": {" + settings + "}}", word);
  };
  EXPECT_THAT(zero(R"("stage": 3)", "zero_stage=2"),
              FailsWith(2, HasSubstr("ds.json: zero_optimization.stage is 3, but zero_stage is 2; "
                                     "expected the same, or one of them alone")));
  EXPECT_THAT(
      zero(R"("stage": 2, "offload_optimizer": {"device": "nvme"})", "offload_optimizer=cpu"),
      FailsWith(
          2,
          HasSubstr(
              "zero_optimization.offload_optimizer.device is nvme, but offload_optimizer is cpu")));
  EXPECT_THAT(
      zero(R"("stage": 2, "offload_optimizer": {"device": "moon"})"),
      FailsWith(2, HasSubstr("offload_optimizer.device: expected none, cpu or nvme, got moon")));
  EXPECT_THAT(zero(R"("stage": 3, "offload_param": {"device": "cpu"})"),
              FailsWith(2, HasSubstr("expected stage 3 and offload_optimizer beside it")));
  EXPECT_THAT(zero(R"("stage": 3, "offload_param": {"device": "nvme"})"),
              FailsWith(2, HasSubstr("weights on a disk are not supported")));
  EXPECT_THAT(zero(R"("stage": 3, "zero_hpz_partition_size": 8)"),
              FailsWith(2, HasSubstr("zero_hpz_partition_size is 8: a second copy")));
  EXPECT_THAT(zero(R"("stage": 3, "mics_shard_size": 5)"),
              FailsWith(2, HasSubstr("mics_shard_size is 5: expected sequence_parallel_size (1)")));
  EXPECT_THAT(
      with(R"({"tensor_parallel": {"autotp_size": 2}})"),
      FailsWith(
          2, HasSubstr("tensor_parallel.autotp_size is 2: tensor parallelism is not supported")));
  EXPECT_THAT(zero(R"("stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "none"})"),
              FailsWith(2, HasSubstr("offload_dir: none is no folder")));
  // Settings that agree pass the check: the error is then the missing model.
  EXPECT_THAT(
      zero(R"("stage": 3, "zero_hpz_partition_size": 1, "offload_param": {"device": "cpu"}, )"
           R"("offload_optimizer": {"device": "cpu"})",
           "zero_stage=3"),
      FailsWith(2, HasSubstr("nothing")));
  EXPECT_THAT(with(R"({"gradient_clipping": 0.5, "bf16": {"enabled": "auto"}, )"
                   R"("zero_optimization": {"stage": 2}})",
                   "max_grad_norm=0.5"),
              FailsWith(2, HasSubstr("nothing")));
  EXPECT_THAT(with(R"({"fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16}})",
                   "fp16=true"),
              FailsWith(2, HasSubstr("nothing")));
}

TEST_F(BadConfigurationTest, Zero) {
  EXPECT_THAT(Word("zero_stage=4"), FailsWith(2, "zero_stage: expected 0 to 3, got 4"));
  EXPECT_THAT(Word("zero_stage=x"), FailsWith(2, HasSubstr("zero_stage: expected int, got 'x'")));
  EXPECT_THAT(Word("zero_group=rack"),
              FailsWith(2, HasSubstr("zero_group: expected world | sp | node, got 'rack'")));
  EXPECT_THAT(Word("offload_optimizer=gpu"),
              FailsWith(2, HasSubstr("offload_optimizer: expected cpu | disk, got 'gpu'")));
  EXPECT_THAT(Word("offload_dir=data"),
              FailsWith(2, "offload_dir is for offload_optimizer: disk alone"));
  EXPECT_THAT(Run({"train", "config.yaml", "offload_optimizer=disk", "offload_dir=nowhere"}),
              FailsWith(2, "offload_dir: nowhere is no folder"));
  EXPECT_THAT(Run({"train", "config.yaml", "offload_optimizer=cpu", "optim=sgd"}),
              FailsWith(2, "offload_optimizer: optim sgd has no state"));
}

// The first key of each case is rejected not by the configuration's parser but by native code, the
// data or the model. The message still names the key as the file writes it, and its line.
TEST_F(BadConfigurationTest, ValuesThatAnotherLayerRefuses) {
  for (const char* const lines : {"lr_scheduler_kwargs: {num_warmup_steps: 1}",
                                  "lr_scheduler_kwargs: {min_lr: x}",
                                  "adam_beta1: 1.0",
                                  "val_size: 1",
                                  "val_size: 100",
                                  "preprocessing_batch_size: 0",
                                  "interleave_probs: 0.5,0.5",
                                  "optim_args: 3",
                                  "optim_args: {foo: 1}",
                                  "deepspeed: nowhere.json",
                                  "fsdp: {a: 1}",
                                  "fsdp_config: nowhere",
                                  "accelerator_config: nowhere",
                                  "tool_format: foo",
                                  "tokenized_path: data",
                                  "new_special_tokens_config: nowhere",
                                  "eval_dataset: foo",
                                  "attention_kernels: foo",
                                  "galore_target: foo\nuse_galore: true",
                                  "badam_start_block: 99\nuse_badam: true",
                                  "max_samples: 0"}) {
    SCOPED_TRACE(lines);
    const std::string key(lines, std::string_view(lines).find(':'));
    EXPECT_THAT(Line(lines), FailsWith(2, StartsWith("line.yaml:17: " + key)));
  }
  EXPECT_THAT(Line("lr_scheduler_kwargs: {lr_end: 1}", {"lr_scheduler_type=polynomial"}),
              FailsWith(2, StartsWith("line.yaml:17: lr_scheduler_kwargs")));
  EXPECT_THAT(Line("warmup_ratio: 2", {"lr_scheduler_type=cosine"}),
              FailsWith(2, StartsWith("line.yaml:17: warmup_ratio")));
}

TEST_F(BadConfigurationTest, Values) {
  EXPECT_THAT(Line("seed: abc"), FailsWith(2, "line.yaml:17: seed: expected int, got 'abc'"));
  EXPECT_THAT(
      Line("warmup_steps: 1.5"),
      FailsWith(2,
                "line.yaml:17: warmup_steps: expected a part of all steps below 1 or a whole "
                "number, got 1.5"));
  EXPECT_THAT(Line("bf16: maybe"), FailsWith(2, "line.yaml:17: bf16: expected bool, got 'maybe'"));
  EXPECT_THAT(Line("max_grad_norm: [1]"),
              FailsWith(2, StartsWith("line.yaml:17: max_grad_norm: expected float, got ")));
  EXPECT_THAT(Line("seed: 1\nseed: 2"),
              FailsWith(2, "line.yaml:18: key 'seed' a second time, first on line 17"));
  EXPECT_THAT(Word("learning_rate=fast"),
              FailsWith(2, HasSubstr("learning_rate: expected float, got 'fast'")));
  EXPECT_THAT(Word("learning_rate=-1"), FailsWith(2, "learning_rate: expected 0 or more, got -1"));
  EXPECT_THAT(Word("learning_rate=nan"),
              FailsWith(2, "learning_rate=nan: learning_rate: expected float, got 'nan'"));
  EXPECT_THAT(Word("lr_scheduler_type=cosin"), FailsWith(2, HasSubstr("(did you mean 'cosine'?)")));
  EXPECT_THAT(
      Word("lr_scheduler_type=reduce_lr_on_plateau"),
      FailsWith(2, HasSubstr("not supported yet: lr_scheduler_type: reduce_lr_on_plateau")));
  EXPECT_THAT(Word("lr_scheduler_type=cosine_with_min_lr"),
              FailsWith(2, HasSubstr("cosine_with_min_lr requires one of min_lr and min_lr_rate")));
  EXPECT_THAT(Word("lr_scheduler_kwargs={min_l: 1}"), FailsWith(2, HasSubstr("min_l")));
  EXPECT_THAT(Run({"train", "config.yaml", "sequence_parallel_size=4", "sequence_parallel_mode=usp",
                   "sequence_parallel_ulysses_degree=3"}),
              FailsWith(2, HasSubstr("sequence_parallel_ulysses_degree 3 x "
                                     "sequence_parallel_ring_degree 0, expected a product of 4")));
  EXPECT_THAT(Run({"train", "config.yaml", "sequence_parallel_size=4",
                   "sequence_parallel_mode=double-ring", "double_ring_window=3"}),
              FailsWith(2, HasSubstr("double_ring_window 3 does not divide 4 ranks")));
  EXPECT_THAT(Word("sequence_parallel_mode=zigzag-rin"),
              FailsWith(2, HasSubstr("(did you mean 'zigzag-ring'?)")));
  EXPECT_THAT(Word("placement=outside"), FailsWith(2, HasSubstr("head_first")));
  EXPECT_THAT(Word("sequence_parallel_size=0"),
              FailsWith(2, "sequence_parallel_size: expected at least 1, got 0"));
  EXPECT_THAT(Word("per_device_train_batch_size=0"),
              FailsWith(2, "per_device_train_batch_size: expected at least 1, got 0"));
  EXPECT_THAT(Word("adam_beta1=2"),
              FailsWith(2, "adam_beta1: expected 0 or more and below 1, got 2"));
  EXPECT_THAT(Run({"train", "config.yaml", "fp16=true", "bf16=true"}),
              FailsWith(2, "bf16 and fp16 exclude one another"));
  EXPECT_THAT(Run({"train", "config.yaml", "fp16=true", "residual_dtype=bf16"}),
              FailsWith(2, HasSubstr("residual_dtype: bf16 is for bf16 or pure_bf16: with fp16")));
  EXPECT_THAT(Run({"train", "config.yaml", "residual_dtype=bf16"}),
              FailsWith(2, HasSubstr("residual_dtype: bf16 is for bf16 or pure_bf16: with fp32")));
}

TEST_F(BadConfigurationTest, File) {
  EXPECT_THAT(Run({"train", "missing.yaml"}), FailsWith(2, "cannot read missing.yaml"));
  EXPECT_THAT(Run({"train", "data"}), FailsWith(2, "data is a folder, expected a file"));
  EXPECT_THAT(Line("seed: [1"), FailsWith(2, StartsWith("line.yaml:18:1: not valid YAML: ")));
  EXPECT_THAT(Line("\tseed: 1"), FailsWith(2, StartsWith("line.yaml:17:1: not valid YAML: ")));
  EXPECT_THAT(Line("seed: 1\n  x: 2"), FailsWith(2, StartsWith("line.yaml:18:")));
  const auto whole = [&](const char* text) {
    Write("whole.yaml", text);
    return Run({"train", "whole.yaml"});
  };
  EXPECT_THAT(whole("- a\n- b\n"),
              FailsWith(2, "whole.yaml: expected keys and values, got a list"));
  EXPECT_THAT(whole("hello"), FailsWith(2, "whole.yaml: expected keys and values, got 'hello'"));
  EXPECT_THAT(whole(""), FailsWith(2, "whole.yaml: expected keys and values, got nothing"));
}

// Output paths that even root cannot write to.
TEST_F(BadConfigurationTest, Outputs) {
  Write("file", "");
  Write("full/kept", "");
  EXPECT_THAT(Word("output_dir=file"),
              FailsWith(2, "output_dir: file is a file, expected a folder"));
  EXPECT_THAT(Word("output_dir=file/below"),
              FailsWith(2, HasSubstr("file/below: Not a directory")));
  EXPECT_THAT(Word("output_dir=/proc/below"), FailsWith(2, HasSubstr("/proc/below")));
  EXPECT_THAT(
      Word("output_dir=full"),
      FailsWith(2, "output_dir: full is not empty; overwrite_output_dir: true writes into it"));
  EXPECT_THAT(Run({"preprocess", "config.yaml"}), FailsWith(2, "config.yaml: out is missing"));
  EXPECT_THAT(Run({"preprocess", "config.yaml", "out=nowhere/rows.jsonl"}),
              FailsWith(2, HasSubstr("out: no folder 'nowhere'")));
  EXPECT_THAT(Run({"preprocess", "config.yaml", "out=file/rows.jsonl"}),
              FailsWith(2, HasSubstr("out: no folder 'file'")));
  // A full disk. The links are in this test's folder: if the code replaced its target by mistake,
  // it would replace the link, not the device.
  std::filesystem::create_symlink("/dev/full", Path("disk"));
  EXPECT_THAT(Run({"preprocess", "config.yaml", "out=disk"}),
              FailsWith(1, "disk: cannot be written: No space left on device"));
  Write("in.json", R"({"input_ids": [1, 2, 3], "labels": [1, 2, 3]})");
  EXPECT_THAT(Run({"probe", "model_name_or_path=model", "input=in.json", "out=disk"}),
              FailsWith(1, "disk: cannot be written: No space left on device"));
  EXPECT_THAT(
      Run({"probe", "model_name_or_path=model", "input=in.json", "out=out.json", "grads=disk"}),
      FailsWith(2, HasSubstr("disk: cannot be written")));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("disk")));
}

}  // namespace
}  // namespace moonring::testing
