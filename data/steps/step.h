// One optimizer step as one data-parallel (dp) rank computes it: all examples of the step, and this
// rank's micro-batches.
//
// All ranks of a sequence-parallel (sp) group have the same step. Each dp rank packs the whole step
// and keeps its own share.
#ifndef MOONRING_DATA_STEPS_STEP_H_
#define MOONRING_DATA_STEPS_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "data/steps/packer.h"
#include "data/steps/step_batches.h"
#include "data/steps/step_examples.h"

namespace moonring::data {

struct Step {
  StepBatch batch;  // over all dp ranks
  // over all dp ranks, without mismatched documents. Like `lengths` and `squares`, it counts a
  // shared prefix once for each document that has it
  int64_t tokens = 0;
  std::vector<MicroBatch> micro_batches;  // of this dp rank; may be empty
  std::vector<MicroBatch>
      mismatched;        // kto: this rank's micro-batches of mismatched documents; otherwise empty
  ExampleList examples;  // over all dp ranks, in the step's order
  std::vector<int64_t> lengths;   // tokens of each example in the training forward pass
  double squares = 0;             // sum of T^2 over the trained documents of T tokens
  std::vector<int64_t> families;  // family of each example, or empty (step_examples.h)
  bool share_prefixes = false;
  int64_t dp = 1;  // number of dp ranks over which the step is divided
};

Step MakeStep(const StepExamples& taken, const PackOptions& packing, int64_t dp_rank);

// Repacks the trained documents: each of `groups` (indices in the step) becomes a micro-batch.
// Groups are assigned to dp ranks by cost, as examples are (data/steps/packer.h). Prefixes are
// shared inside a group if the step shares them. Fails if an index is missing, repeated or out of
// range; the step is then unchanged.
absl::Status Regroup(const std::vector<std::vector<int64_t>>& groups, int64_t dp, int64_t dp_rank,
                     Step& step);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_H_
