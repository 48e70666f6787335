// The examples of one optimizer step, of all dp ranks: what steps are packed from, whether a data
// set is held whole or streamed.
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
  StepBatch batch;  // indices: into the data set; in a stream, numbers from its very beginning on,
                    // over all passes
  ExampleList examples;  // of each index
  // Of each example a number: those of one number, a family, begin alike, as answers to one prompt,
  // and may share that beginning. Empty: each is a family of its own.
  std::vector<int64_t> families;

  int64_t family(int64_t place) const { return families.empty() ? place : families[place]; }
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_EXAMPLES_H_
