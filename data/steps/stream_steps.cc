#include "data/steps/stream_steps.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<std::unique_ptr<StreamSteps>> StreamSteps::Create(
    std::shared_ptr<ExampleStream> stream, const StreamStepsOptions& options) {
  if (options.batch < 1 || options.batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream_steps: a step must take at least 1 example, got ", options.batches,
                     " batches of ", options.batch));
  }
  auto steps = std::unique_ptr<StreamSteps>(new StreamSteps(std::move(stream), options));
  RETURN_IF_ERROR(steps->stream_->BeginPass(0));
  return steps;
}

absl::StatusOr<std::optional<StepExamples>> StreamSteps::Next() {
  if (options_.total_steps.has_value() && steps_ >= *options_.total_steps) return std::nullopt;
  StepExamples step{.batch = {.epoch = pass_, .step = taken_ / options_.batches}};
  for (int64_t b = 0; b < options_.batches; ++b) {
    ASSIGN_OR_RETURN(std::vector<Example> batch, stream_->NextBatch(options_.batch));
    if (batch.empty()) break;
    ++taken_;
    for (Example& example : batch) {
      step.batch.examples.push_back(index_++);
      step.examples.push_back(std::make_shared<const Example>(std::move(example)));
    }
  }
  RETURN_IF_ERROR(stream_->Check());
  if (step.examples.empty()) {  // a pass has no examples, or ended with the previous step
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: no row of pass ", pass_ + 1, " over the stream gives an example"));
  }
  ++steps_;
  ASSIGN_OR_RETURN(step.batch.last, stream_->AtEnd());
  if (step.batch.last) {
    taken_ = 0;
    RETURN_IF_ERROR(stream_->BeginPass(++pass_));
  }
  return step;
}

std::string StreamSteps::SaveState() const {
  const nlohmann::json state = {{"stage", "stream_steps"}, {"batch", options_.batch},
                                {"pass", pass_},           {"taken", taken_},
                                {"steps", steps_},         {"index", index_}};
  return absl::StrCat(state.dump(), "\n", stream_->SaveState());
}

absl::Status StreamSteps::LoadState(absl::string_view state) {
  const size_t end = std::min(state.find('\n'), state.size());
  const nlohmann::json saved =
      nlohmann::json::parse(state.substr(0, end), nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || saved.value("stage", nlohmann::json()) != "stream_steps" ||
      end == state.size()) {
    return absl::InvalidArgumentError("stream_steps: not a state that steps of a stream saved");
  }
  for (const char* key : {"batch", "pass", "taken", "steps", "index"}) {
    if (!saved.contains(key) || !saved[key].is_number_unsigned() || saved[key].get<int64_t>() < 0)
      return absl::InvalidArgumentError("stream_steps: the saved state is broken");
  }
  // The product is exact: `batch` is unchanged, or there is one lane, whose batches are all
  // complete within a pass.
  const int64_t batch = saved["batch"], taken_examples = batch * saved["taken"].get<int64_t>();
  if (batch != options_.batch && stream_->lanes() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("per_device_train_batch_size was ", batch, ", is ", options_.batch,
                     ": with dataloader_num_workers ", stream_->lanes(),
                     ", whose batches take turns, the order of a stream's examples depends on it"));
  }
  const int64_t step = options_.batch * options_.batches;
  if (batch < 1 || taken_examples % step != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        taken_examples, " examples of the pass had been taken, which no whole number of steps of ",
        step, " examples makes"));
  }
  RETURN_IF_ERROR(stream_->LoadState(state.substr(end + 1)));
  pass_ = saved["pass"];
  taken_ = taken_examples / options_.batch;
  steps_ = saved["steps"];
  index_ = saved["index"];
  return absl::OkStatus();
}

}  // namespace moonring::data
