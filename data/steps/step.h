// A step of one dp rank, ready to compute: the step's examples, and this rank's micro-batches of
// them.
//
// Every rank of an sp group makes the same; every dp rank packs the whole step and keeps its own
// part.
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
  StepBatch batch;     // of all dp ranks
  int64_t tokens = 0;  // of all dp ranks, the mismatched documents' left out; those of a shared
                       // prefix counted in each document that has it, as in `lengths`, `squares`
  std::vector<MicroBatch> micro_batches;  // of this one; may be empty
  std::vector<MicroBatch>
      mismatched;                 // kto: this rank's part of the mismatched documents; else empty
  ExampleList examples;           // of all dp ranks, in the step's order
  std::vector<int64_t> lengths;   // of each of these: the tokens that one forward takes of it
  double squares = 0;             // the sum of T^2 over their trained documents, of T tokens each
  std::vector<int64_t> families;  // of the examples; or empty (step_examples.h)
  bool share_prefixes = false;
};

Step MakeStep(const StepExamples& taken, const PackOptions& packing, int64_t dp_rank);

// Packs the trained documents anew: each of `groups`, places in the step, is a micro-batch. Groups
// go to dp ranks by cost, as examples do (data/steps/packer.h). Prefixes are shared inside groups
// where the step shares them. Fails where a place is missing,
// there twice, or none of the step's; the step is then unchanged.
absl::Status Regroup(const std::vector<std::vector<int64_t>>& groups, int64_t dp, int64_t dp_rank,
                     Step& step);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_H_
