#include "data/dataset_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name) {
  if (name == "truncate") return Overlong::kTruncate;
  if (name == "drop") return Overlong::kDrop;
  if (name == "error") return Overlong::kError;
  return absl::InvalidArgumentError(
      absl::StrCat("overlong must be truncate, drop or error, got '", name, "'"));
}

absl::Status CheckOptions(const DatasetOptions& options) {
  if (options.names.empty()) return absl::InvalidArgumentError("dataset: names no data set");
  for (size_t i = 0; i < options.names.size(); ++i) {
    if (std::find(options.names.begin(), options.names.begin() + i, options.names[i]) !=
        options.names.begin() + i) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset: names '", options.names[i], "' twice"));
    }
  }
  RETURN_IF_ERROR(CheckMix(options.mix, static_cast<int64_t>(options.names.size())));
  if (options.cutoff_len < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("cutoff_len must be at least 1, got ", options.cutoff_len));
  if (options.max_samples.has_value() && *options.max_samples < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_samples must be at least 1, got ", *options.max_samples));
  }
  if (options.preprocessing_batch_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "preprocessing_batch_size must be at least 1, got ", options.preprocessing_batch_size));
  }
  if (options.threads < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("preprocessing_num_workers must be at least 1, got ", options.threads));
  if (options.train_on_prompt && options.mask_history)
    return absl::InvalidArgumentError("train_on_prompt and mask_history exclude one another");
  if (options.train_on_prompt && options.chat_template.efficient_eos) {
    return absl::InvalidArgumentError(
        absl::StrCat("train_on_prompt does not go with the template '", options.chat_template.name,
                     "', which parts turns by its own eos"));
  }
  if (options.stage != Stage::kSupervised && (options.train_on_prompt || options.mask_history)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.train_on_prompt ? "train_on_prompt" : "mask_history", " is for stage sft alone"));
  }
  if (options.stage != Stage::kSupervised && options.neat_packing)
    return absl::InvalidArgumentError("neat_packing is for stage sft alone");
  if (options.stage != Stage::kSupervised && options.one_turn)
    return absl::InvalidArgumentError("one_turn is for stage sft alone");
  if (options.stage != Stage::kPretraining && options.stage != Stage::kSupervised &&
      options.packing.value_or(false)) {
    return absl::InvalidArgumentError(
        "packing is for stages pt and sft alone; here micro-batches are packed without it, "
        "exactly");
  }
  return absl::OkStatus();
}

}  // namespace moonring::data
