// Options of preparing data sets: which data sets, for which stage, and how they are truncated.
#ifndef MOONRING_DATA_DATASET_OPTIONS_H_
#define MOONRING_DATA_DATASET_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/threads/work_count.h"
#include "data/description/dataset_info.h"
#include "data/description/stage.h"
#include "data/mixing/mixer.h"
#include "data/text/template_spec.h"

namespace moonring::data {

enum class Overlong { kTruncate, kDrop, kError };

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name);  // "truncate", "drop", "error"

struct DatasetOptions {
  std::vector<std::string> names;
  std::string dataset_dir = "data";
  // dataset_dir is a checkout in a hub's cache (data/description/dataset_info.h)
  bool dir_is_checkout = false;
  std::map<std::string, FetchedFiles> fetched;  // data sets that come from a hub, by name
  Stage stage = Stage::kSupervised;
  TemplateSpec chat_template;
  std::optional<std::string> default_system;  // if set, even to "", replaces the template's
  int64_t cutoff_len = 2048;
  std::optional<int64_t> max_samples;  // first N rows of each data set, including skipped ones
  MixOptions mix;
  int64_t seed = 42;  // for mixing, num_samples and val_size
  bool train_on_prompt = false;
  bool mask_history = false;
  Overlong overlong = Overlong::kTruncate;  // unused if pretraining texts are packed
  // pretraining: concatenate the texts and cut them into blocks of cutoff_len; default true.
  // supervised: pack documents into rows of cutoff_len + 1 tokens (packed_rows.h).
  std::optional<bool> packing;
  bool neat_packing = false;  // supervised: pack, but texts do not attend to each other
  // supervised: each example is one turn and is never packed: the prompt, which has no labels, is
  // everything before the row's last answer; the response is that answer. Used for evaluation by
  // generation.
  bool one_turn = false;
  // Number of rows prepared together: pretraining concatenates the texts of each such batch; kto
  // pairs prompts with mismatched answers inside it.
  int64_t preprocessing_batch_size = 1000;
  int64_t threads = 1;  // encoding threads; the result does not depend on it
  // Progress: the number of encoded rows, and a total estimated from the share of the files that
  // they took (plain text files only). Null: progress is not reported.
  std::shared_ptr<base::WorkCount> work;

  bool joins_texts() const { return stage == Stage::kPretraining && packing.value_or(true); }
  bool packs_rows() const {
    return stage == Stage::kSupervised && !one_turn && (packing.value_or(false) || neat_packing);
  }
};

// INVALID_ARGUMENT for options that are out of range or contradictory.
absl::Status CheckOptions(const DatasetOptions& options);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_OPTIONS_H_
