// The examples of one optimizer step, of all dp ranks: what steps are packed from, whether a data
// set is held whole or streamed.
#ifndef MOONRING_DATA_STEPS_STEP_EXAMPLES_H_
#define MOONRING_DATA_STEPS_STEP_EXAMPLES_H_

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
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_EXAMPLES_H_
