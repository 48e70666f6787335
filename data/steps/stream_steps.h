// The steps of a stream. Each step has the next `batches` batches of `batch` examples. A lane (the
// rows that one data loading worker of LLaMA-Factory would read, data/stream/example_stream.h) may
// end with a shorter batch. A step never crosses the end of a pass and is never empty.
//
// If the end of a pass interrupts gradient accumulation, the Hugging Face Trainer adds the
// accumulated gradient to the first step of the next pass; here the remaining batches are a
// separate step, as at the end of an epoch. Steps are the same for any dp with equal `batches`;
// with one lane, also for any `batch` with the same number of examples per step, so that a state
// can be loaded with other batch sizes.
#ifndef MOONRING_DATA_STEPS_STREAM_STEPS_H_
#define MOONRING_DATA_STEPS_STREAM_STEPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/pipeline/source.h"
#include "data/steps/step_examples.h"
#include "data/stream/example_stream.h"

namespace moonring::data {

struct StreamStepsOptions {
  int64_t batch = 0;                   // examples per batch
  int64_t batches = 0;                 // batches per step: accumulation x dp
  std::optional<int64_t> total_steps;  // counted from the beginning of training
};

class StreamSteps final : public Source<StepExamples> {
 public:
  static absl::StatusOr<std::unique_ptr<StreamSteps>> Create(std::shared_ptr<ExampleStream> stream,
                                                             const StreamStepsOptions& options);

  absl::StatusOr<std::optional<StepExamples>> Next() override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view state) override;

 private:
  StreamSteps(std::shared_ptr<ExampleStream> stream, const StreamStepsOptions& options)
      : stream_(std::move(stream)), options_(options) {}

  std::shared_ptr<ExampleStream> stream_;
  StreamStepsOptions options_;
  int64_t pass_ = 0;
  int64_t taken_ = 0;  // batches used in this pass
  int64_t steps_ = 0;  // over all passes
  int64_t index_ = 0;  // number of the next example
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STREAM_STEPS_H_
