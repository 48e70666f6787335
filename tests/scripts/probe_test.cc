// `moonring probe` equals Transformers in fp64 (tests/golden/model), on one rank and on ranks that
// share the sequence.
//
// Bounds: fp64 differs from Transformers' fp64 by the order of sums only (1e-10 relative). fp32
// differs by the rounding of a small model (2e-5 relative, 1e-5 in the loss), as Transformers' own
// fp32 differs from its fp64.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

constexpr const char* kModes[] = {"ulysses", "ring",        "zigzag-ring", "all-gather",
                                  "usp",     "double-ring", "auto"};

struct ProbedRanks {
  int sp = 1;
  std::string mode;  // "": the default
};

// Returns the greatest difference of two lists of numbers, relative to the second's largest number.
double Distance(const json& a, const json& b) {
  if (!a.is_structured())
    return std::fabs(a.get<double>() - b.get<double>()) /
           std::max(1e-300, std::fabs(b.get<double>()));
  if (a.size() != b.size()) return 1e300;
  double difference = 0, largest = 1e-300;
  const json flat_a = a.flatten(), flat_b = b.flatten();
  for (const auto& [place, value] : flat_b.items()) {
    if (!flat_a.contains(place)) return 1e300;
    difference = std::max(difference, std::fabs(flat_a[place].get<double>() - value.get<double>()));
    largest = std::max(largest, std::fabs(value.get<double>()));
  }
  return difference / largest;
}

class ProbeTest : public Workplace {
 protected:
  json Golden(const std::string& model, const std::string& name) const {
    const json golden = ReadJson("tests/golden/model/" + model + "/golden.json");
    for (const json& each : golden.at("cases")) {
      if (each.at("name") == name) return each;
    }
    ADD_FAILURE() << model << " has no case " << name;
    return {};
  }

  json Probe(const std::string& model, const json& input, std::vector<std::string> more) const {
    Write("in.json", input.dump());
    std::vector<std::string> words = {
        "probe", "model_name_or_path=" + Runfile("tests/golden/model/" + model), "input=in.json",
        "out=out.json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    return ReadJson(Path("out.json"));
  }

  void Compare(const std::string& model, const std::string& name, const ProbedRanks& ranks,
               bool fp64) const {
    SCOPED_TRACE(model + "/" + name + " sp=" + std::to_string(ranks.sp) + " " + ranks.mode +
                 (fp64 ? " fp64" : " fp32"));
    const json golden = Golden(model, name), wanted = golden.at("output");
    std::vector<std::string> more = {"sequence_parallel_size=" + std::to_string(ranks.sp)};
    if (!ranks.mode.empty()) more.push_back("sequence_parallel_mode=" + ranks.mode);
    if (fp64) more.push_back("fp64=true");
    const json found = Probe(model, golden.at("input"), more);
    ASSERT_EQ(found.size(), wanted.size());
    const double bound = fp64 ? 1e-10 : 2e-5;
    EXPECT_LE(Distance(found.at("loss"), wanted.at("loss")), fp64 ? 1e-12 : 1e-5);
    EXPECT_LE(Distance(found.at("logits"), wanted.at("logits")), bound);
    EXPECT_LE(Distance(found.at("logsumexp"), wanted.at("logsumexp")), bound);
    EXPECT_LE(Distance(found.at("grad_norm_total"), wanted.at("grad_norm_total")), bound);
    ASSERT_EQ(found.at("grad_norm").size(), wanted.at("grad_norm").size());
    for (const auto& [parameter, norm] : wanted.at("grad_norm").items()) {
      EXPECT_LE(Distance(found.at("grad_norm").at(parameter), norm), bound) << parameter;
    }
  }
};

TEST_F(ProbeTest, EveryModelOnOneRank) {
  for (const char* model : {"gqa_tied", "mha_untied", "uneven_6_3", "mqa_5_1", "head_dim",
                            "sharded", "rope_parameters", "bf16", "mistral_window"}) {
    for (const char* name : {"masked", "packed"}) Compare(model, name, {}, /*fp64=*/true);
  }
  for (const char* model : {"gqa_tied", "uneven_6_3", "mistral_window"}) {
    Compare(model, "first_token_learnt", {}, /*fp64=*/true);
    Compare(model, "packed_long", {}, /*fp64=*/false);
  }
}

// The second document of `packed` has no target. Because the documents are short, one of 3 ranks
// has no target at all.
TEST_F(ProbeTest, EveryStrategyOnSeveralRanks) {
  for (const char* mode : kModes) {
    Compare("gqa_tied", "packed", {2, mode}, /*fp64=*/true);
    Compare("uneven_6_3", "packed_long", {3, mode}, /*fp64=*/true);
    Compare("mistral_window", "packed_long", {4, mode}, /*fp64=*/true);
  }
  for (const char* mode : {"ulysses", "zigzag-ring"}) {
    Compare("mqa_5_1", "packed", {2, mode}, /*fp64=*/true);
    Compare("gqa_tied", "packed_long", {3, mode}, /*fp64=*/false);
  }
  Compare("gqa_tied", "first_token_learnt", {3, ""}, /*fp64=*/true);
  Compare("mha_untied", "one", {4, "ulysses"}, /*fp64=*/true);
}

// If -n starts more ranks than one sp group needs, the ranks of a second group do not change the
// result.
TEST_F(ProbeTest, RanksBesideTheGroupChangeNothing) {
  const json golden = Golden("gqa_tied", "packed");
  Write("in.json", golden.at("input").dump());
  const CommandResult result =
      Run({"-n", "4", "probe", "model_name_or_path=" + Runfile("tests/golden/model/gqa_tied"),
           "input=in.json", "out=out.json", "sequence_parallel_size=2", "fp64=true"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_LE(Distance(ReadJson(Path("out.json")).at("loss"), golden.at("output").at("loss")), 1e-12);
  EXPECT_LE(
      Distance(ReadJson(Path("out.json")).at("grad_norm"), golden.at("output").at("grad_norm")),
      1e-10);
}

// With a single target, in the last document, only one rank has a target.
TEST_F(ProbeTest, RanksWithoutATarget) {
  json input = Golden("gqa_tied", "packed").at("input");
  for (json& label : input.at("labels")) label = -100;
  input.at("labels").back() = 5;
  const json alone = Probe("gqa_tied", input, {"fp64=true"});
  for (const char* mode : {"ulysses", "zigzag-ring", "all-gather"}) {
    const json shared = Probe(
        "gqa_tied", input,
        {"fp64=true", "sequence_parallel_size=3", std::string("sequence_parallel_mode=") + mode});
    EXPECT_LE(Distance(shared.at("loss"), alone.at("loss")), 1e-12) << mode;
    EXPECT_LE(Distance(shared.at("grad_norm"), alone.at("grad_norm")), 1e-10) << mode;
  }
  for (json& label : input.at("labels")) label = -100;  // and none at all
  const json none = Probe("gqa_tied", input, {"sequence_parallel_size=2"});
  EXPECT_EQ(none.at("loss"), 0);
  EXPECT_EQ(none.at("grad_norm_total"), 0);
}

// The golden gradients are fp64, those that probe writes are fp32: 1e-6 allows for that rounding.
TEST_F(ProbeTest, WritesTheGradientsThemselves) {
  for (const auto& [model, name] :
       {std::pair("uneven_6_3", "packed"), std::pair("gqa_tied", "packed_long")}) {
    const json golden = Golden(model, name), &wanted = golden.at("gradients");
    Probe(model, golden.at("input"),
          {"fp64=true", "sequence_parallel_size=2", "grads=grads.safetensors"});
    const StoredTensors found = ReadSafetensors(Path("grads.safetensors"));
    ASSERT_EQ(found.size(), wanted.size());
    for (const auto& [parameter, gradient] : wanted.items()) {
      ASSERT_TRUE(found.contains(parameter)) << parameter;
      EXPECT_TRUE(SketchedError(GradientIn(found, parameter), gradient, 1e-6)) << model;
    }
  }
}

// bf16 matmuls have 8 significant bits: gradients differ by 2 % of their norm, and sp changes that
// little.
TEST_F(ProbeTest, Bf16IsNearFp32) {
  const json golden = Golden("gqa_tied", "packed_long");
  for (const char* precision : {"bf16=true", "pure_bf16=true"}) {
    for (const char* ranks : {"sequence_parallel_size=1", "sequence_parallel_size=2"}) {
      const json found = Probe("gqa_tied", golden.at("input"), {precision, ranks});
      EXPECT_LE(Distance(found.at("loss"), golden.at("output").at("loss")), 2e-3)
          << precision << " " << ranks;
      EXPECT_LE(Distance(found.at("grad_norm_total"), golden.at("output").at("grad_norm_total")),
                2e-2)
          << precision << " " << ranks;
    }
  }
}

}  // namespace
}  // namespace moonring::testing
