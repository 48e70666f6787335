// Returns the steps of one data-parallel (dp) rank: each step has all its examples, and this rank's
// micro-batches.
//
// All ranks of a sequence-parallel (sp) group have the same steps. Each dp rank packs the whole
// step and keeps its own share. SaveState saves the state of the underlying source of examples.
#ifndef MOONRING_DATA_STEPS_STEP_SOURCE_H_
#define MOONRING_DATA_STEPS_STEP_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "data/pipeline/source.h"
#include "data/steps/packer.h"
#include "data/steps/step.h"
#include "data/steps/step_examples.h"

namespace moonring::data {

class StepSource final : public Source<Step> {
 public:
  static absl::StatusOr<std::unique_ptr<StepSource>> Create(
      std::unique_ptr<Source<StepExamples>> examples, PackOptions packing, int64_t dp_rank);

  absl::StatusOr<std::optional<Step>> Next() override;
  std::string SaveState() const override { return examples_->SaveState(); }
  absl::Status LoadState(absl::string_view state) override { return examples_->LoadState(state); }

 private:
  StepSource(std::unique_ptr<Source<StepExamples>> examples, PackOptions packing, int64_t dp_rank)
      : examples_(std::move(examples)), packing_(packing), dp_rank_(dp_rank) {}

  std::unique_ptr<Source<StepExamples>> examples_;
  PackOptions packing_;
  int64_t dp_rank_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_SOURCE_H_
