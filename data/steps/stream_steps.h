// The steps of a stream: each takes the next `batches` batches of `batch` examples (a lane's last
// one is short), none crosses a pass, and none is empty.
//
// Where gradient accumulation is cut short by a pass's end, the Hugging Face Trainer lets the rest
// of a window wait, and adds its gradient to the next pass's first step; here it is a step of its
// own, as at the end of an epoch. For any dp the steps are the same where batches are; with one
// lane where a step's examples are as many, so that a state may be loaded into other batches.
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
  int64_t batch = 0;                   // examples
  int64_t batches = 0;                 // of a step: accumulation x dp
  std::optional<int64_t> total_steps;  // since the very first
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
  int64_t taken_ = 0;  // batches, in the pass
  int64_t steps_ = 0;  // in all
  int64_t index_ = 0;  // of the next example
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STREAM_STEPS_H_
