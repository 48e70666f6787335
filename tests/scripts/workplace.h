#ifndef MOONRING_TESTS_SCRIPTS_WORKPLACE_H_
#define MOONRING_TESTS_SCRIPTS_WORKPLACE_H_

// What a user of the commands has: a folder with a model, data and a configuration. Each test's
// own, gone with it.
//
// The model is tiny (2 layers, hidden 32, 4 heads over 2 key-value heads, 675 ids) so that a
// command takes a second; its numbers come from a counter, its file is written here byte by byte,
// and files of the host are read here, so that neither a fault of our writer nor one of our reader
// can hide behind the other.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/command.h"
#include "tests/testing/gradient_sketch.h"

namespace moonring::testing {

using Words = std::vector<std::string>;  // of a command

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What makes so many ranks of a command.
inline Words OnRanks(int ranks) { return {"-n", std::to_string(ranks)}; }

struct StoredTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using StoredTensors = std::map<std::string, StoredTensor>;

StoredTensors TinyWeights(int heads = 4, int kv_heads = 2);
StoredTensors ReadSafetensors(const std::string& path);  // F32 and F64; fails the test on any other
// For SketchedErrorOf.
NamedGradient GradientIn(const StoredTensors& tensors, const std::string& name);
std::string SafetensorsHeader(const StoredTensors& tensors);
std::string SafetensorsFile(const std::string& header, const StoredTensors& tensors);

std::string ReadText(const std::string& path);
nlohmann::json ReadJson(const std::string& path);
std::vector<nlohmann::json> ReadJsonLines(const std::string& path);
std::string Runfile(const std::string& path);  // absolute; of this repository

// ||a - b|| / ||b|| over all elements; infinite where the sizes differ.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b);

class Workplace : public ::testing::Test {
 protected:
  Workplace();
  ~Workplace() override;

  std::string Path(const std::string& name) const;
  std::string Write(const std::string& name, const std::string& text) const;  // -> its path
  // `name`/: config.json, model.safetensors and a tokenizer with the chat tokens.
  void WriteModel(const std::string& name, const StoredTensors& weights = TinyWeights(),
                  const nlohmann::json& changed_config = {}) const;
  // config.yaml: ten documents of uneven lengths, model/, output out/; `more` lines win.
  void WriteConfig(const std::string& more = "") const;

  // In this folder, one thread a rank.
  CommandOptions Options(std::vector<std::string> arguments) const;
  CommandResult Run(std::vector<std::string> arguments) const;

  std::string folder_;
};

// Exit code `code`, nothing on stdout, and one line on stderr: "moonring: " and then what `matcher`
// wants; no C++ innards.
MATCHER_P2(FailsWith, code, message, "") {
  *result_listener << arg.Describe();
  const std::string& text = arg.err;
  const bool one_line = !text.empty() && text.find('\n') == text.size() - 1;
  for (const char* innards :
       {"frame #", "Exception raised", "c10::", "std::", "terminate called", "/pytorch/"}) {
    if (text.find(innards) != std::string::npos) return false;
  }
  return !arg.timed_out && arg.exit_code == code && one_line && text.rfind("moonring: ", 0) == 0 &&
         arg.out.empty() &&
         ::testing::ExplainMatchResult(message, text.substr(10, text.size() - 11), result_listener);
}

MATCHER(Succeeds, "") {
  *result_listener << arg.Describe();
  return !arg.timed_out && arg.exit_code == 0;
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_SCRIPTS_WORKPLACE_H_
