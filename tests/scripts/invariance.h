#ifndef MOONRING_TESTS_SCRIPTS_INVARIANCE_H_
#define MOONRING_TESTS_SCRIPTS_INVARIANCE_H_

// Checks that results do not depend on the number of ranks. Each objective has a list of cases,
// which tests/scripts/invariance.lua runs on several ranks; their numbers are compared with those
// of one rank.
//
// The model is that of tests/golden/stages (3 layers, 4 query heads, 2 key heads). The data are its
// conversations, pairs and texts. One example has 460 tokens, most of them prompt: that is eight
// blocks of the rank layout, so every strategy splits it over up to four ranks, and some of the
// blocks have no target. A step takes four examples.
//
// The tolerances, fp64 1e-10 and fp32 1e-5, allow for rounding only. They are relative to a loss,
// to a tensor's gradient, or to the greater of a metric's sum and 1. A tensor whose gradient is
// below 1e-5 of the whole model's gradient is compared relative to the latter (for example, the
// gradient of a reward model's bias is 0 except for rounding).

#include <map>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {

struct InvarianceCase {
  std::string name;
  nlohmann::json keys;                             // of moonring train
  nlohmann::json more = nlohmann::json::object();  // further fields of invariance.lua's plan
};

struct InvarianceRun {
  std::string name, of;  // the case
  nlohmann::json entry;
};

struct Ranks {
  int ranks, sp;
};

inline constexpr const char* kStrategies[] = {"ulysses", "zigzag-ring", "usp", "all-gather",
                                              "ring",    "double-ring", "auto"};

class InvarianceTest : public Workplace {
 protected:
  using Tensors = std::map<std::string, std::vector<double>>;

  InvarianceTest();

  // Returns all cases: one for each stage and option, steps in which ranks lack data, user-defined
  // losses, and evaluation.
  std::vector<InvarianceCase> Cases() const;

  InvarianceRun RunOf(const InvarianceCase& of, const std::string& strategy, bool packed,
                      const std::string& precision = "fp64") const;

  // Runs a plan and returns its results by run name. If the command fails, the test fails and the
  // result is {}.
  nlohmann::json Launch(const Ranks& ranks, const std::vector<InvarianceRun>& plan,
                        const std::string& folder) const;

  // Runs every case on one rank with packing. All other runs are compared with these numbers.
  void MakeReference(const std::vector<InvarianceCase>& cases,
                     const std::string& precision = "fp64");

  // Runs the plan and compares each run with the reference of its case, and runs that must agree
  // with one another. Prints the greatest differences.
  void Compare(const Ranks& ranks, const std::vector<InvarianceRun>& plan, double tolerance);

  Tensors ReadDoubles(const std::string& path) const;
  const std::string golden_;  // tests/golden/stages/

 private:
  struct Worst {
    double loss = 0, metric = 0, gradient = 0;
  };

  void CompareSteps(const nlohmann::json& ours, const nlohmann::json& theirs, double tolerance,
                    Worst* worst) const;
  void CompareGradients(const nlohmann::json& ours, const std::string& path, const std::string& of,
                        double tolerance, Worst* worst) const;
  void CompareWithin(const nlohmann::json& results, const std::vector<InvarianceRun>& plan,
                     const std::string& folder, double tolerance) const;

  nlohmann::json reference_;
  std::map<std::string, Tensors> reference_gradients_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_SCRIPTS_INVARIANCE_H_
