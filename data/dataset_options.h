// What is asked of data sets: which, for what stage, how they are cut.
#ifndef MOONRING_DATA_DATASET_OPTIONS_H_
#define MOONRING_DATA_DATASET_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/stage.h"
#include "data/template_spec.h"

namespace moonring::data {

enum class Overlong { kTruncate, kDrop, kError };

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name);  // "truncate", "drop", "error"

struct DatasetOptions {
  std::vector<std::string> names;
  std::string dataset_dir = "data";
  Stage stage = Stage::kSupervised;
  TemplateSpec chat_template;
  std::optional<std::string> default_system;  // where given, even "", in place of the template's
  int64_t cutoff_len = 2048;
  std::optional<int64_t> max_samples;  // the first rows of each data set, skipped ones included
  bool train_on_prompt = false;
  bool mask_history = false;
  Overlong overlong = Overlong::kTruncate;  // nothing is overlong where texts are packed
  std::optional<bool> packing;              // pretraining: join the texts and cut them in blocks of cutoff_len; true where absent
  // Rows that are prepared together: pretraining joins the texts of each such batch, feedback mismatches answers inside it.
  int64_t preprocessing_batch_size = 1000;

  bool packs() const { return stage == Stage::kPretraining && packing.value_or(true); }
};

// INVALID_ARGUMENT for options out of range or at odds.
absl::Status CheckOptions(const DatasetOptions& options);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_OPTIONS_H_
