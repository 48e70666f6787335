// What is asked of data sets: which, for what stage, how they are cut.
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
  bool dir_is_checkout = false;  // of a hub's cache (data/description/dataset_info.h)
  std::map<std::string, FetchedFiles> fetched;  // of data sets that lie on a hub, by name
  Stage stage = Stage::kSupervised;
  TemplateSpec chat_template;
  std::optional<std::string> default_system;  // where given, even "", in place of the template's
  int64_t cutoff_len = 2048;
  std::optional<int64_t> max_samples;  // the first rows of each data set, skipped ones included
  MixOptions mix;
  int64_t seed = 42;  // of mixing, of num_samples in a description and of val_size
  bool train_on_prompt = false;
  bool mask_history = false;
  Overlong overlong = Overlong::kTruncate;  // nothing is overlong where texts are packed
  // pretraining: join the texts and cut them in blocks of cutoff_len; true where absent.
  // supervised: pack them into rows of cutoff_len + 1 (packed_rows.h)
  std::optional<bool> packing;
  bool neat_packing = false;  // supervised: such rows, their texts apart
  // supervised: an example is one turn, never packed: all that stands before the row's last answer,
  // of which nothing is learnt, and that answer. What answers are generated to.
  bool one_turn = false;
  // Rows that are prepared together: pretraining joins the texts of each such batch, feedback
  // mismatches answers inside it.
  int64_t preprocessing_batch_size = 1000;
  int64_t threads = 1;  // that encode rows; they change nothing but the time
  // Counts the rows that are encoded. Their total is reckoned from how much of the files they took,
  // where these are plain texts. Null: nobody wants to know.
  std::shared_ptr<base::WorkCount> work;

  bool joins_texts() const { return stage == Stage::kPretraining && packing.value_or(true); }
  bool packs_rows() const {
    return stage == Stage::kSupervised && !one_turn && (packing.value_or(false) || neat_packing);
  }
};

// INVALID_ARGUMENT for options out of range or at odds.
absl::Status CheckOptions(const DatasetOptions& options);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_OPTIONS_H_
