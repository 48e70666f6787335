#include "tests/scripts/invariance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLong = 460;

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Appends all numbers of nested JSON arrays to *flat.
void Flatten(const json& numbers, std::vector<double>* flat) {
  if (!numbers.is_array())
    return flat->push_back(numbers.is_number() ? numbers.get<double>() : std::nan(""));
  for (const json& each : numbers) Flatten(each, flat);
}

json With(json keys, const json& more) {
  keys.update(more);
  return keys;
}

// Returns documents for a plan; each pair is a document's length and the number of its last tokens
// that are labels.
json OwnDocuments(const std::vector<std::pair<int, int>>& lengths) {
  json documents = json::array(), labels = json::array();
  int next = 3;
  for (const auto& [length, learnt] : lengths) {
    json ids = json::array(), label = json::array();
    for (int i = 0; i < length; ++i) {
      next = (next * 31 + 17) % 600;
      ids.push_back(next + 3);
      label.push_back(i >= length - learnt ? next + 3 : -100);
    }
    documents.push_back(ids);
    labels.push_back(label);
  }
  return {{"documents", documents}, {"labels", labels}};
}

// Keys that several cases have in common.
json Sft() { return {{"stage", "sft"}, {"dataset", "talks"}}; }
json Pt() { return {{"stage", "pt"}, {"dataset", "texts"}}; }
json Rm() { return {{"stage", "rm"}, {"dataset", "pairs"}}; }
json Dpo() { return {{"stage", "dpo"}, {"dataset", "pairs"}}; }
json Kto() { return {{"stage", "kto"}, {"dataset", "judged"}}; }
json TwoSteps() { return {{"max_steps", 2}, {"learning_rate", 0.1}}; }
json TwoGroups() { return {{"accumulation", 2}}; }

// Returns keys for LoRA. Without ref_model, the reference is the model without the adapter.
json Lora(const std::string& golden) {
  return {{"finetuning_type", "lora"}, {"adapter_name_or_path", golden + "adapter"}};
}

// Returns keys for a reference that differs from the policy, so that rewards are not 0.
json Other(const std::string& golden) {
  return {{"ref_model", golden + "model"}, {"ref_model_adapters", golden + "adapter"}};
}

std::vector<InvarianceCase> TokenCases(const std::string& golden) {
  const json lora = With(Lora(golden), {{"lora_dropout", 0.1}}),
             dora = With(lora, {{"adapter_name_or_path", golden + "adapter_dora"}}),
             pissa = {{"finetuning_type", "lora"}, {"pissa_init", true}};
  return {
      {"sft", Sft()},
      {"sft_prompt", With(Sft(), {{"train_on_prompt", true}})},
      {"sft_targets", With(Sft(), {{"count", "targets"}})},
      {"sft_own", With(Sft(), {{"count", "targets"}}), {{"objective", "token"}}},
      {"sft_prefix", With(Sft(), {{"count", "targets"}}), {{"objective", "prefix"}}},
      {"sft_states", Sft(), {{"objective", "states"}}},
      {"sft_states_lora", With(Sft(), lora), {{"objective", "states"}}},
      {"sft_early", Sft(), {{"objective", "early"}}},
      {"sft_early_lora", With(Sft(), lora), {{"objective", "early"}}},
      {"sft_cut", Sft(), {{"objective", "cut"}}},
      {"sft_steered", With(Sft(), TwoSteps()), {{"objective", "steered"}}},
      {"sft_steered_alone", Sft(), {{"objective", "steered_alone"}}},
      {"sft_dft", With(Sft(), {{"use_dft_loss", true}})},
      {"sft_eaft", With(Sft(), {{"use_eaft_loss", true}, {"eaft_alpha", 1.5}})},
      {"sft_asft",
       With(With(Sft(), Other(golden)), {{"use_asft_loss", true}, {"asft_alpha", 0.7}})},
      {"sft_asft_lora", With(With(Sft(), Lora(golden)), {{"use_asft_loss", true}})},
      {"sft_smoothing", With(Sft(), {{"label_smoothing_factor", 0.1}})},
      {"sft_neftune", With(With(Sft(), {{"neftune_noise_alpha", 5}}), TwoSteps())},
      {"sft_freeze", With(Sft(), {{"finetuning_type", "freeze"}, {"freeze_trainable_layers", 1}})},
      {"sft_lora", With(With(Sft(), lora), TwoSteps())},
      {"sft_dora", With(Sft(), dora)},
      {"sft_oft", With(With(Sft(), {{"finetuning_type", "oft"}}), TwoSteps())},
      {"sft_pissa", With(With(Sft(), pissa), TwoSteps())},
      {"pt", With(Pt(), {{"packing", false}})},
      {"pt_blocks", Pt()}};
}

std::vector<InvarianceCase> PairCases(const std::string& golden, const std::string& cache) {
  const json dpo = With(Dpo(), Other(golden)), lora = With(Dpo(), Lora(golden));
  const json cached = With(dpo, {{"precompute_ref_log_probs", true}});
  std::vector<InvarianceCase> cases = {
      {"dpo_first", Dpo()},
      {"dpo_own", dpo, {{"objective", "sequence"}}},
      {"dpo_branch", dpo, {{"objective", "branch"}}},
      {"dpo_cached", cached},
      {"dpo_cached_by_another", With(cached, {{"output_dir", cache}})},
      {"dpo_gradient_descent", dpo, {{"save", true}}},
      {"cdpo", With(dpo, {{"dpo_label_smoothing", 0.1}})},
      {"ftx", With(dpo, {{"pref_ftx", 0.5}})},
      {"ld_alpha", With(dpo, {{"ld_alpha", 0.3}})},
      {"bco", With(With(dpo, {{"pref_bco_weight", 0.5}}), TwoSteps()), TwoGroups()},
      {"kto_pair_lora", With(lora, {{"pref_loss", "kto_pair"}}), TwoGroups()},
      {"robust", With(dpo, {{"pref_loss", "robust"}, {"dpo_label_smoothing", 0.2}})},
      {"orpo", With(Dpo(), {{"pref_loss", "orpo"}})},
      {"simpo", With(Dpo(), {{"pref_loss", "simpo"}, {"pref_beta", 2.0}})}};
  for (const char* loss : {"sigmoid", "hinge", "ipo", "kto_pair", "nca_pair"})
    cases.push_back({loss, With(dpo, {{"pref_loss", loss}})});
  return cases;
}

// Returns cases with a value head. `dropping` is the folder of a model with dropout before that
// head.
std::vector<InvarianceCase> ScoreCases(const std::string& golden, const std::string& dropping) {
  return {
      {"rm", Rm()},
      {"rm_dropout", With(With(Rm(), {{"model_name_or_path", dropping}}), TwoSteps())},
      {"kto", With(With(Kto(), Other(golden)), {{"kto_chosen_weight", 0.7}, {"pref_ftx", 0.2}})},
      {"kto_lora", With(Kto(), Lora(golden)), TwoGroups()}};
}

// Returns cases with an evaluation of an odd number of examples in batches of two.
std::vector<InvarianceCase> EvaluatedCases(const std::string& golden) {
  const json seven = {{"max_samples", 7}, {"per_device_eval_batch_size", 2}},
             evaluate = {{"evaluate", true}};
  const auto on = [&](const json& keys, const json& more) {
    return With(With(keys, seven), With({{"eval_dataset", keys.at("dataset")}}, more));
  };
  const json asft = With(With(Sft(), Other(golden)), {{"use_asft_loss", true}});
  return {{"asft_evaluated", on(asft, json::object()), evaluate},
          {"sft_evaluated", on(Sft(), {{"count", "targets"}}), With(evaluate, TwoGroups())},
          {"rm_evaluated", on(Rm(), json::object()), evaluate},
          {"kto_evaluated", on(With(Kto(), Lora(golden)), json::object()), evaluate},
          {"bco_evaluated", on(With(Dpo(), Other(golden)), {{"pref_bco_weight", 0.5}}), evaluate}};
}

// Returns cases in which ranks lack data: steps of one example, documents without a target, with a
// label on the first token only, or of one token, and steps without any target.
std::vector<InvarianceCase> LackingCases(const std::string& golden) {
  const json dpo = With(Dpo(), Other(golden)), kto = With(Kto(), Lora(golden)),
             bco = With(dpo, {{"pref_bco_weight", 0.5}});
  std::vector<InvarianceCase> cases;
  for (const auto& [name, keys] : std::map<std::string, json>{
           {"sft", Sft()}, {"rm", Rm()}, {"kto", kto}, {"sigmoid", dpo}, {"bco", bco}}) {
    cases.push_back({"one_" + name, With(keys, {{"max_samples", 1}})});
  }
  const json tags = {{"desirable", {true, false, true, false, true, false}}};
  const json some =
      With(OwnDocuments({{70, 0}, {90, 30}, {150, 100}, {1, 1}, {130, 130}, {40, 39}}), tags);
  const json none = With(OwnDocuments({{70, 0}, {1, 1}, {1, 0}, {90, 0}}), tags);
  for (const auto& [name, keys] : std::map<std::string, json>{
           {"sft", Sft()},
           {"eaft", With(Sft(), {{"use_eaft_loss", true}})},
           {"asft", With(With(Sft(), Other(golden)), {{"use_asft_loss", true}})},
           {"sigmoid", dpo},
           {"ipo", With(dpo, {{"pref_loss", "ipo"}})},
           {"kto_pair", With(With(Dpo(), Lora(golden)), {{"pref_loss", "kto_pair"}})},
           {"bco", bco},
           {"orpo", With(Dpo(), {{"pref_loss", "orpo"}, {"pref_ftx", 0.5}})},
           {"simpo", With(Dpo(), {{"pref_loss", "simpo"}})},
           {"kto", With(kto, {{"pref_ftx", 0.5}})}}) {
    cases.push_back({"some_" + name, keys, some});
    cases.push_back({"none_" + name, keys, none});
  }
  return cases;
}

}  // namespace

InvarianceTest::InvarianceTest() : golden_(Runfile("tests/golden/stages/")) {
  const auto rows = [&](const char* name) { return ReadJson(golden_ + "data/" + name + ".json"); };
  json pairs = rows("pairs"), judged = rows("judged"), talks = rows("talks"), texts = rows("texts");
  std::string text;
  for (const json& row : texts) text += row.at("text").get<std::string>() + " ";
  const std::string prompt = text.substr(0, 1150);
  for (json& row : pairs) row["conversations"] = json::array({row["conversations"].back()});
  for (json& row : talks)
    row["conversations"] = json::array({row["conversations"][0], row["conversations"][1]});
  pairs[1]["conversations"][0]["value"] = judged[1]["messages"][0]["content"] =
      talks[1]["conversations"][0]["value"] = prompt;
  texts[1]["text"] = text.substr(0, 1500);
  for (const auto& [name, all] : std::map<std::string, json>{
           {"pairs", pairs}, {"judged", judged}, {"talks", talks}, {"texts", texts}}) {
    Write("data/" + name + ".json", all.dump());
  }
  Write("data/dataset_info.json", ReadText(golden_ + "data/dataset_info.json"));
  json config = ReadJson(golden_ + "model/config.json");
  config.erase("summary_dropout_prob");  // a value head's dropout is 0.1 then
  Write("dropping/config.json", config.dump());
  for (const char* name :
       {"model.safetensors", "value_head.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    Write(std::string("dropping/") + name, ReadText(golden_ + "model/" + name));
  }
}

std::vector<InvarianceCase> InvarianceTest::Cases() const {
  std::vector<InvarianceCase> cases = TokenCases(golden_);
  for (const auto& more : {PairCases(golden_, Path("cache")), ScoreCases(golden_, Path("dropping")),
                           EvaluatedCases(golden_), LackingCases(golden_)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

InvarianceRun InvarianceTest::RunOf(const InvarianceCase& of, const std::string& strategy,
                                    bool packed, const std::string& precision) const {
  const std::string name = of.name + "." + strategy + (packed ? ".packed" : ".single");
  json keys = {{"model_name_or_path", golden_ + "model"},
               {"dataset_dir", Path("data")},
               {"output_dir", Path("out")},
               {"template", "chatml"},
               {"finetuning_type", "full"},
               {"cutoff_len", kLong},
               {"max_samples", 8},
               {"max_steps", 1},
               {"learning_rate", 1.0},
               {"optim", "sgd"},
               {"disable_shuffling", true},
               {"seed", 7},
               {"overwrite_cache", false},
               {"sequence_parallel_mode", strategy},
               {"micro_batch_tokens", packed ? 4096 : 1}};
  if (precision != "fp32") keys[precision] = true;
  keys.update(of.keys);
  json entry = With({{"name", name}, {"group", 4}, {"keys", keys}}, of.more);
  return {name, of.name, entry};
}

json InvarianceTest::Launch(const Ranks& ranks, const std::vector<InvarianceRun>& plan,
                            const std::string& folder) const {
  json entries = json::array();
  for (const InvarianceRun& run : plan) {
    entries.push_back(run.entry);
    // Each case has its own dataset cache, except for cases that test sharing one.
    json& keys = entries.back()["keys"];
    if (keys["output_dir"] == Path("out"))
      keys["output_dir"] = Path(folder + "/" + run.name + ".run");
    fs::create_directories(keys["output_dir"].get<std::string>());
  }
  Write(folder + "/plan.json", entries.dump());
  const CommandResult result =
      Run({"-n", std::to_string(ranks.ranks), Runfile("tests/scripts/invariance.lua"),
           "sp=" + std::to_string(ranks.sp), "plan=" + folder + "/plan.json", "out=" + folder});
  EXPECT_THAT(result, Succeeds());
  return result.exit_code == 0 ? ReadJson(Path(folder + "/results.json")) : json();
}

InvarianceTest::Tensors InvarianceTest::ReadDoubles(const std::string& path) const {
  const std::string file = ReadText(path);
  Tensors tensors;
  uint64_t size = 0;
  if (file.size() < 8) return tensors;
  std::memcpy(&size, file.data(), 8);
  const json header = json::parse(file.substr(8, size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = 8 + size + entry.at("data_offsets")[0].get<size_t>(),
                 end = 8 + size + entry.at("data_offsets")[1].get<size_t>();
    const bool wide = entry.at("dtype") == "F64";
    EXPECT_TRUE(wide || entry.at("dtype") == "F32")
        << path << ": " << name << " is " << entry.at("dtype");
    std::vector<double>& values = tensors[name];
    for (size_t at = begin; at < end; at += wide ? 8 : 4) {
      float narrow = 0;
      double value = 0;
      std::memcpy(wide ? static_cast<void*>(&value) : &narrow, file.data() + at, wide ? 8 : 4);
      values.push_back(wide ? value : narrow);
    }
  }
  return tensors;
}

void InvarianceTest::MakeReference(const std::vector<InvarianceCase>& cases,
                                   const std::string& precision) {
  std::vector<InvarianceRun> plan;
  for (const InvarianceCase& each : cases)
    plan.push_back(RunOf(each, kStrategies[0], true, precision));
  const json results = Launch({1, 1}, plan, "reference");
  ASSERT_TRUE(results.is_object());
  for (const InvarianceRun& run : plan) {
    reference_[run.of] = results.at(run.name);
    reference_gradients_[run.of] = ReadDoubles(Path("reference/" + run.name + ".safetensors"));
    for (const json& step : results.at(run.name).at("steps")) {
      const double loss =
          step.at("loss").is_number() ? step.at("loss").get<double>() : std::nan("");
      EXPECT_TRUE(std::isfinite(loss)) << run.name;
      const bool nothing = run.of.rfind("none_", 0) == 0;
      EXPECT_EQ(step.at("grad_norm") == 0.0, nothing) << run.name;
      EXPECT_EQ(step.contains("idle"), nothing) << run.name;
      if (run.of == "kto_lora") {
        EXPECT_GT(step.at("metrics").at("kl")[0].get<double>(), 0.1);
      }  // else it would be cut off at 0
    }
  }
}

void InvarianceTest::CompareSteps(const json& ours, const json& theirs, double tolerance,
                                  Worst* worst) const {
  ASSERT_EQ(ours.at("steps").size(), theirs.at("steps").size());
  for (size_t k = 0; k < theirs.at("steps").size(); ++k) {
    const json &a = ours.at("steps")[k], &b = theirs.at("steps")[k];
    ASSERT_TRUE(a.at("loss").is_number()) << a;
    EXPECT_EQ(a.contains("idle"), b.contains("idle")) << "step " << k + 1;
    const double loss = b.at("loss"), distance = std::fabs(a.at("loss").get<double>() - loss);
    worst->loss = std::max(worst->loss, loss != 0 ? distance / std::fabs(loss) : distance);
    EXPECT_LE(distance, tolerance * std::fabs(loss)) << "step " << k + 1;
    ASSERT_EQ(a.at("metrics").size(), b.at("metrics").size()) << a << "\n" << b;
    for (const auto& [name, pair] : b.at("metrics").items()) {
      ASSERT_TRUE(a.at("metrics").contains(name)) << name;
      EXPECT_EQ(a.at("metrics").at(name)[1], pair[1]) << name;
      const double sum = pair[0],
                   apart = std::fabs(a.at("metrics").at(name)[0].get<double>() - sum) /
                           std::max(std::fabs(sum), 1.0);
      worst->metric = std::max(worst->metric, apart);
      EXPECT_LE(apart, tolerance) << name << " of step " << k + 1;
    }
  }
  if (!theirs.contains("evaluation")) return;
  const json &a = ours.at("evaluation"), &b = theirs.at("evaluation");
  ASSERT_EQ(a.size(), b.size()) << a << "\n" << b;
  for (const auto& [name, value] : b.items()) {
    const double wanted = value, apart = std::fabs(a.at(name).get<double>() - wanted) /
                                         std::max(std::fabs(wanted), 1.0);
    worst->metric = std::max(worst->metric, apart);
    EXPECT_LE(apart, tolerance) << "evaluation's " << name;
  }
}

void InvarianceTest::CompareGradients(const json& ours, const std::string& path,
                                      const std::string& of, double tolerance, Worst* worst) const {
  Tensors gradients = ReadDoubles(path), wanted = reference_gradients_.at(of);
  for (auto* numbers : {&ours, &reference_.at(of)}) {  // a value head has its own
    if (!numbers->at("value_head").is_object()) continue;
    for (const auto& [name, values] : numbers->at("value_head").items())
      Flatten(values, &(numbers == &ours ? gradients : wanted)[name]);
  }
  ASSERT_EQ(gradients.size(), wanted.size());
  const double least = tolerance > 1e-8 ? 1e-2 : 1e-5;  // single precision, double
  double whole = 0;
  for (const auto& [name, values] : wanted) whole = std::hypot(whole, Norm(values));
  for (const auto& [name, values] : wanted) {
    ASSERT_TRUE(gradients.contains(name)) << name;
    // If the terms of a gradient cancel (a reward model's bias: chosen minus rejected), only
    // rounding is left, and it is relative to the terms, that is, to the whole gradient.
    const double distance = Difference(gradients.at(name), values),
                 size = std::max(Norm(values), least * whole);
    if (size > 0) worst->gradient = std::max(worst->gradient, distance / size);
    EXPECT_LE(distance, tolerance * size) << name;
  }
}

void InvarianceTest::CompareWithin(const json& results, const std::vector<InvarianceRun>& plan,
                                   const std::string& folder, double tolerance) const {
  const auto near = [&](const json& a, const json& b) {
    EXPECT_NEAR(a.get<double>(), b.get<double>(), tolerance * std::fabs(b.get<double>()));
  };
  for (const InvarianceRun& run : plan) {
    SCOPED_TRACE(run.name);
    const json &result = results.at(run.name), &step = result.at("steps")[0];
    const std::string rest = run.name.substr(run.of.size());
    if (run.of == "dpo_first") {
      EXPECT_NEAR(step.at("loss").get<double>(), std::log(2.0), 1e-6);
    }
    // A custom loss must equal the built-in one of the same formula.
    if (run.of == "sft_own")
      near(step.at("loss"), reference_.at("sft_targets").at("steps")[0].at("loss"));
    if (run.of == "dpo_own")
      near(step.at("loss"), reference_.at("sigmoid").at("steps")[0].at("loss"));
    if (run.of == "sft_own" || run.of == "dpo_own") {
      Worst ignored;
      CompareGradients(result, Path(folder + "/" + run.name + ".safetensors"),
                       run.of == "sft_own" ? "sft_targets" : "sigmoid", tolerance, &ignored);
    }
    if (run.of == "dpo_cached") {  // and as with a live reference on the same plan, bit-identical
      ASSERT_TRUE(results.contains("sigmoid" + rest));
      EXPECT_EQ(result.at("steps"), results.at("sigmoid" + rest).at("steps"));
      EXPECT_EQ(ReadText(Path(folder + "/" + run.name + ".safetensors")),
                ReadText(Path(folder + "/sigmoid" + rest + ".safetensors")));
    }
    // The training step's only example is also the whole evaluation set.
    if (run.of == "sft_evaluated")
      near(result.at("evaluation").at("loss_per_token"), step.at("loss"));
    if (run.of == "dpo_gradient_descent") {
      const Tensors before = ReadDoubles(golden_ + "model/model.safetensors"),
                    gradients = reference_gradients_.at(run.of);
      const Tensors after = ReadDoubles(Path(folder + "/" + run.name + "/model.safetensors"));
      for (const auto& [name, gradient] : gradients) {
        std::vector<double> change;
        for (size_t i = 0; i < gradient.size(); ++i)
          change.push_back(before.at(name)[i] - after.at(name)[i]);
        EXPECT_LE(Difference(change, gradient), tolerance * Norm(gradient)) << name;
      }
    }
  }
}

void InvarianceTest::Compare(const Ranks& ranks, const std::vector<InvarianceRun>& plan,
                             double tolerance) {
  const std::string folder =
      "ranks" + std::to_string(ranks.ranks) + "_sp" + std::to_string(ranks.sp);
  SCOPED_TRACE(folder);
  const json results = Launch(ranks, plan, folder);
  ASSERT_TRUE(results.is_object());
  Worst worst;
  double seconds = 0;
  for (const InvarianceRun& run : plan) {
    SCOPED_TRACE(run.name);
    const json& result = results.at(run.name);
    CompareSteps(result, reference_.at(run.of), tolerance, &worst);
    CompareGradients(result, Path(folder + "/" + run.name + ".safetensors"), run.of, tolerance,
                     &worst);
    seconds += result.at("seconds").get<double>();
  }
  CompareWithin(results, plan, folder, tolerance);
  std::printf("%s: %zu runs in %.1f s; worst distances: loss %.1e, metrics %.1e, gradients %.1e\n",
              folder.c_str(), plan.size(), seconds, worst.loss, worst.metric, worst.gradient);
  std::fflush(stdout);  // the matrix takes its time
  fs::remove_all(Path(folder));
}

}  // namespace moonring::testing
