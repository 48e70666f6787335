#ifndef MOONRING_TESTS_SCRIPTS_INVARIANCE_H_
#define MOONRING_TESTS_SCRIPTS_INVARIANCE_H_

// Every objective as a list of cases, run by tests/scripts/invariance.lua on some ranks, and its
// numbers compared with one rank's.
//
// The model is that of tests/golden/stages (3 layers, 4 heads over 2), the data its conversations,
// pairs and texts, where one example is 460 tokens long, most of it prompt: eight blocks of the
// layout, so that every strategy cuts it over up to four ranks and some of these have no target. A
// step takes four examples.
//
// Tolerances, of rounding alone (design.md, rule 5): fp64 1e-10, fp32 1e-5, relative to a loss, to
// a tensor's gradient, and to a metric's sum or 1, whichever is greater. A tensor whose gradient is
// below 1e-5 of the whole model's is held against that (a reward model's bias has none, but for
// rounding).

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

  // All cases; those of one stage and option each, of steps that lack something, of losses of a
  // script's own, of evaluation.
  std::vector<InvarianceCase> Cases() const;

  InvarianceRun RunOf(const InvarianceCase& of, const std::string& strategy, bool packed,
                      const std::string& precision = "fp64") const;

  // Runs a plan; its results by name. A failure of the command fails the test and gives {}.
  nlohmann::json Launch(const Ranks& ranks, const std::vector<InvarianceRun>& plan,
                        const std::string& folder) const;

  // One rank's numbers of every case, packed: what all else is compared with.
  void MakeReference(const std::vector<InvarianceCase>& cases,
                     const std::string& precision = "fp64");

  // Launches the plan and compares each run with its case's reference, and runs that must agree
  // with one another. Prints the worst distances.
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
