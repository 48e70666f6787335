// Training an adapter over a packed (quantized) base model (quantization_bit) equals training over
// the same base dequantized beforehand, which `export` writes with the same keys. Both use the same
// numbers in matrix products, so losses, norms and adapters are bit-identical on the same number of
// ranks.

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PackedBaseTest : public Workplace {
 protected:
  PackedBaseTest() {
    WriteModel("model");
    WriteConfig("finetuning_type: lora\nlora_rank: 4\nlearning_rate: 2.0e-2");
  }

  void Unpack(const std::string& folder, std::vector<std::string> keys) const {
    std::vector<std::string> words = {"export", "model_name_or_path=model", "infer_dtype=float32",
                                      "export_dir=" + folder};
    words.insert(words.end(), keys.begin(), keys.end());
    const CommandResult result = Run(words);
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr("not as its files have it"));
  }

  // A run's losses and norms by step, and the bytes of its adapter's file.
  struct Trained {
    std::vector<json> steps;
    std::string adapter;
  };
  Trained Train(int ranks, const std::string& out, std::vector<std::string> keys) const {
    std::vector<std::string> words = {"-n", std::to_string(ranks), "train", "config.yaml",
                                      "output_dir=" + out};
    words.insert(words.end(), keys.begin(), keys.end());
    EXPECT_THAT(Run(words), Succeeds());
    Trained trained;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains("loss")) trained.steps.push_back({line.at("loss"), line.at("grad_norm")});
    }
    EXPECT_FALSE(trained.steps.empty());
    trained.adapter = ReadText(Path(out + "/adapter_model.safetensors"));
    return trained;
  }

  void ExpectEqual(const std::string& name, int ranks, std::vector<std::string> pack,
                   std::vector<std::string> keys, const std::string& unpacked) const {
    SCOPED_TRACE(name);
    std::vector<std::string> apart = keys;
    apart.push_back("model_name_or_path=" + unpacked);
    const Trained want = Train(ranks, name + "_apart", apart);
    keys.insert(keys.end(), pack.begin(), pack.end());
    const Trained got = Train(ranks, name, keys);
    EXPECT_EQ(got.steps, want.steps);
    EXPECT_TRUE(got.adapter == want.adapter);
  }
};

const std::vector<std::string> kNf4 = {"quantization_bit=4"};

// The weights that `export` writes are values of the quantized format: nf4 has sixteen values per
// block of 64, whose largest is exact; int8 has multiples of a 127th of a row's largest value. All
// other weights are unchanged.
TEST_F(PackedBaseTest, MatricesOfBlocksAloneAreRounded) {
  Unpack("nf4", {"quantization_bit=4", "double_quantization=false"});
  Unpack("int8", {"quantization_bit=8"});
  const StoredTensors before = TinyWeights(), four = ReadSafetensors(Path("nf4/model.safetensors")),
                      eight = ReadSafetensors(Path("int8/model.safetensors"));
  int packed = 0;
  for (const auto& [name, tensor] : before) {
    const std::vector<float>& x = tensor.values;
    const bool linear = name.find("_proj.weight") != std::string::npos;
    packed += linear ? 1 : 0;
    if (!linear) {
      EXPECT_EQ(four.at(name).values, x) << name;
      EXPECT_EQ(eight.at(name).values, x) << name;
      continue;
    }
    EXPECT_NE(four.at(name).values, x) << name;
    for (size_t begin = 0; begin < x.size(); begin += 64) {
      std::set<float> steps;
      float most = 0, got = 0;
      for (size_t i = begin; i < std::min(begin + 64, x.size()); ++i) {
        steps.insert(four.at(name).values[i]);
        most = std::max(most, std::fabs(x[i]));
        got = std::max(got, std::fabs(four.at(name).values[i]));
      }
      EXPECT_LE(steps.size(), 16u);
      EXPECT_EQ(got, most) << name;
    }
    const size_t width = tensor.shape[1];
    for (size_t row = 0; row < x.size() / width; ++row) {
      float most = 0;
      for (size_t i = 0; i < width; ++i) most = std::max(most, std::fabs(x[row * width + i]));
      for (size_t i = row * width; i < (row + 1) * width; ++i)
        EXPECT_NEAR(eight.at(name).values[i], x[i], most * (0.5 / 127 + 1e-3)) << name;
    }
  }
  EXPECT_EQ(packed, 14);
}

TEST_F(PackedBaseTest, EqualsTheBaseUnpackedBeforehand) {
  Unpack("nf4", kNf4);
  for (const int sp : {1, 2, 4}) {
    const std::string n = std::to_string(sp);
    ExpectEqual("sp" + n, sp, kNf4, {"sequence_parallel_size=" + n}, "nf4");
  }
  ExpectEqual("zero3", 4, kNf4, {"sequence_parallel_size=2", "zero_stage=3"}, "nf4");
  ExpectEqual("dora", 1, kNf4, {"use_dora=true"}, "nf4");
  ExpectEqual("dora_zero3", 2, kNf4, {"use_dora=true", "zero_stage=3", "use_rslora=true"}, "nf4");
  ExpectEqual("selective", 1, kNf4, {"recompute=selective", "loraplus_lr_ratio=4"}, "nf4");
  ExpectEqual("graph", 1, kNf4, {"recompute=none"}, "nf4");
}

TEST_F(PackedBaseTest, EveryCode) {
  const std::vector<std::vector<std::string>> codes = {
      {"quantization_bit=4", "quantization_type=fp4"},
      {"quantization_bit=4", "double_quantization=false"},
      {"quantization_bit=8"}};
  for (size_t i = 0; i < codes.size(); ++i) {
    const std::string folder = "code" + std::to_string(i);
    Unpack(folder, codes[i]);
    ExpectEqual("of_" + folder, 2, codes[i], {"zero_stage=3"}, folder);
  }
}

// bf16 weights are quantized from bf16 and dequantized to bf16; likewise fp16.
TEST_F(PackedBaseTest, InSixteenBits) {
  Unpack("nf4", {"quantization_bit=4", "bf16=true"});
  ExpectEqual("bf16", 1, kNf4, {"bf16=true"}, "nf4");
  Unpack("nf4_fp16", {"quantization_bit=4", "fp16=true"});
  ExpectEqual("fp16", 1, kNf4, {"fp16=true"}, "nf4_fp16");
}

TEST_F(PackedBaseTest, ResumesBitByBit) {
  const std::vector<std::string> keys = {"quantization_bit=4", "max_steps=4", "save_steps=2"};
  const Trained whole = Train(1, "whole", keys);
  std::filesystem::create_directory(Path("half"));
  std::filesystem::copy(Path("whole/checkpoint-2"), Path("half/checkpoint-2"),
                        std::filesystem::copy_options::recursive);
  std::vector<std::string> again = keys;
  again.push_back("resume_from_checkpoint=true");
  const Trained half = Train(1, "half", again);
  ASSERT_EQ(whole.steps.size(), 4u);
  EXPECT_EQ(half.steps.back(), whole.steps.back());
  EXPECT_TRUE(half.adapter == whole.adapter);
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=half", "resume_from_checkpoint=true",
                   "quantization_bit=8", "max_steps=4", "save_steps=2"}),
              FailsWith(2, HasSubstr("quantization_bit")));
}

// The adapter is merged into the dequantized weights with which it was trained, so the exported
// model gives the results of the adapter over the quantized base.
TEST_F(PackedBaseTest, ExportAndProbeAgree) {
  Train(1, "out", kNf4);
  Write("probe.json", R"({"input_ids": [5, 9, 77, 30, 2, 8], "labels": [5, 9, 77, 30, 2, 8],
                          "positions": [0, 4]})");
  ASSERT_THAT(Run({"export", "model_name_or_path=model", "adapter_name_or_path=out",
                   "quantization_bit=4", "infer_dtype=float32", "export_dir=merged"}),
              Succeeds());
  ASSERT_THAT(Run({"probe", "model_name_or_path=model", "adapter_name_or_path=out",
                   "quantization_bit=4", "input=probe.json", "out=packed.json"}),
              Succeeds());
  ASSERT_THAT(Run({"probe", "model_name_or_path=merged", "input=probe.json", "out=merged.json"}),
              Succeeds());
  const json packed = ReadJson(Path("packed.json")), merged = ReadJson(Path("merged.json"));
  EXPECT_NEAR(packed.at("loss").get<double>(), merged.at("loss").get<double>(), 1e-5);
  EXPECT_GT(packed.at("grad_norm_total").get<double>(), 0);
}

// Training an adapter of a base model whose weights stay as the quantized blocks of a GGUF file
// (Q4_1, Q8_0, ...) gives the same results as with the file's weights dequantized to fp32.
TEST_F(PackedBaseTest, BlocksOfAGgufFile) {
  const std::vector<std::string> keys = {"model_name_or_path=builtin:smollm2", "max_steps=1",
                                         "cutoff_len=32", "per_device_train_batch_size=1",
                                         "gradient_accumulation_steps=1"};
  std::vector<std::string> packed = keys;
  packed.push_back("quantization_method=gguf");
  const Trained want = Train(1, "read", keys), got = Train(1, "blocks", packed);
  EXPECT_EQ(got.steps, want.steps);
  EXPECT_TRUE(got.adapter == want.adapter);
}

// DPO's reference model is the quantized base without the adapter, or a ref_model that may be
// quantized independently of the policy.
TEST_F(PackedBaseTest, TheReferenceIsTheBase) {
  Unpack("nf4", kNf4);
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    rows += json{{"instruction", "Which? " + std::to_string(i)},
                 {"chosen", "the moon " + std::to_string(i * i)},
                 {"rejected", "no"}}
                .dump() +
            "\n";
  }
  Write("data/pairs.jsonl", rows);
  Write("data/dataset_info.json",
        R"({"pairs": {"file_name": "pairs.jsonl", "ranking": true, "columns": )"
        R"({"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}}})");
  ExpectEqual("dpo", 2, kNf4, {"stage=dpo", "dataset=pairs", "max_steps=2"}, "nf4");
  // ref_model is quantized and the policy is not.
  const auto with = [&](const std::string& out, std::vector<std::string> keys) {
    keys.insert(keys.end(), {"stage=dpo", "dataset=pairs", "max_steps=2"});
    return Train(1, out, keys);
  };
  const Trained apart = with("ref_apart", {"ref_model=nf4"}),
                packed = with("ref", {"ref_model=model", "ref_model_quantization_bit=4"});
  EXPECT_EQ(packed.steps, apart.steps);
  EXPECT_TRUE(packed.adapter == apart.adapter);
  EXPECT_NE(with("ref_plain", {"ref_model=model"}).steps, apart.steps);
}

TEST_F(PackedBaseTest, Refusals) {
  const auto refused = [&](std::vector<std::string> keys, const std::string& words) {
    std::vector<std::string> all = {"train", "config.yaml"};
    all.insert(all.end(), keys.begin(), keys.end());
    EXPECT_THAT(Run(all), FailsWith(2, HasSubstr(words)));
  };
  refused({"quantization_bit=3"}, "quantization_bit: expected 4 or 8, got 3");
  refused({"quantization_bit=4", "finetuning_type=full"}, "quantization_bit");
  refused({"quantization_bit=4", "quantization_method=hqq"}, "quantization_method");
  refused({"quantization_bit=4", "resize_vocab=true"}, "vocabulary does not grow");
  refused({"quantization_bit=4", "adapter_name_or_path=a,b"}, "expected one adapter, got 2");
  refused({"quantization_bit=4", "quantization_device_map=auto"}, "quantization_device_map: auto");
  refused({"quantization_bit=4", "recompute=auto"}, "recompute: auto");
  refused({"quantization_method=gguf"}, "no matrix of model is stored in blocks of a code");
  refused({"quantization_method=gguf", "quantization_bit=4"}, "stay in the blocks");
  EXPECT_THAT(Run({"probe", "model_name_or_path=model", "quantization_bit=4", "input=config.yaml",
                   "out=o.json"}),
              FailsWith(2, HasSubstr("expected an adapter")));
}

// Bytes in closed form: 4.127 bits per quantized weight; all other weights as without quantization.
TEST_F(PackedBaseTest, PlanNamesBytesAndTheBuffer) {
  const CommandResult result = Run({"plan", "config.yaml", "quantization_bit=4"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out,
              ::testing::AllOf(HasSubstr("packed (nf4 double)"), HasSubstr("a buffer of")));
}

}  // namespace
}  // namespace moonring::testing
