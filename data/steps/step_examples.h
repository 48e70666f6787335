// The examples of one optimizer step over all dp ranks, from a data set in memory or from a stream.
// packer.h packs them into micro-batches.
#ifndef MOONRING_DATA_STEPS_STEP_EXAMPLES_H_
#define MOONRING_DATA_STEPS_STEP_EXAMPLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "data/example.h"
#include "data/steps/step_batches.h"

namespace moonring::data {

using ExampleList = std::vector<std::shared_ptr<const Example>>;

struct StepExamples {
  // indices into the data set; in a stream, example numbers counted from the first pass on
  StepBatch batch;
  ExampleList examples;  // the example at each index
  // A family number for each example. Examples with the same number have a common beginning, like
  // answers to one prompt, and may share it. Empty: each example is its own family.
  std::vector<int64_t> families;

  int64_t family(int64_t place) const { return families.empty() ? place : families[place]; }
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_EXAMPLES_H_
