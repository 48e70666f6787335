#ifndef MOONRING_TESTS_SCRIPTS_WORKPLACE_H_
#define MOONRING_TESTS_SCRIPTS_WORKPLACE_H_

// A folder such as a user of the commands has, with a model, data and a configuration. Each test
// has its own folder, which is deleted at its end.
//
// The model is tiny (2 layers, hidden size 32, 4 query heads, 2 key-value heads, 675 ids), so a
// command takes about a second. Its numbers come from a counter. The test writes its file byte by
// byte and reads the host's files with its own code, so that an error in our writer and an error in
// our reader cannot cancel out.

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

// Returns the options with which the host starts a command on this many ranks.
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

// Returns ||a - b|| / ||b|| over all elements; infinity if the sizes differ.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b);

class Workplace : public ::testing::Test {
 protected:
  Workplace();
  ~Workplace() override;

  std::string Path(const std::string& name) const;
  std::string Write(const std::string& name, const std::string& text) const;  // -> its path
  // Writes the folder `name`: config.json, model.safetensors and a tokenizer with the chat tokens.
  void WriteModel(const std::string& name, const StoredTensors& weights = TinyWeights(),
                  const nlohmann::json& changed_config = {}) const;
  // Writes config.yaml: ten documents of different lengths, the model model/, the output folder
  // out/. The lines of `more` override these.
  void WriteConfig(const std::string& more = "") const;

  // Returns the options to run a command in this folder, with one thread per rank.
  CommandOptions Options(std::vector<std::string> arguments) const;
  CommandResult Run(std::vector<std::string> arguments) const;

  std::string folder_;
};

// Matches a command that exits with code `code`, prints nothing to stdout, and prints one line to
// stderr: "moonring: " and a text that matches `message`, without C++ internals.
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
