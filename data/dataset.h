// Data sets by name -> training examples: read, converted, templated, cut, in the order of `names` and of their rows.
//
// Each row is read once and dropped: memory is what the examples take (8 bytes a token). Nothing is shuffled here.
// What is left out or cut is counted and reported, with the first row of each kind; `overlong` says what to do with what
// does not fit in cutoff_len.
//
// Fails, naming the data set and where there is one the file, line and row: whatever reading the description, the template or a row can
// complain of; a column that no row has; no row; rows but no example; nothing left to learn because cutoff_len is too small;
// a row too long under overlong = error; options out of range or at odds.
#ifndef MOONRING_DATA_DATASET_H_
#define MOONRING_DATA_DATASET_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/example.h"
#include "data/tokenizer.h"

namespace moonring::data {

enum class Overlong { kTruncate, kDrop, kError };

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name);  // "truncate", "drop", "error"

struct DatasetOptions {
  std::vector<std::string> names;
  std::string dataset_dir = "data";
  std::string template_name;
  std::optional<std::string> default_system;  // where given, even "", in place of the template's
  int64_t cutoff_len = 2048;
  std::optional<int64_t> max_samples;  // the first rows of each data set, skipped ones included
  bool train_on_prompt = false;
  bool mask_history = false;
  Overlong overlong = Overlong::kTruncate;
};

// Rows left out for one reason.
struct SkippedRows {
  std::string reason;
  int64_t count = 0;
  std::string first;  // FILE:LINE (row N)
};

struct DatasetReport {
  int64_t rows = 0, examples = 0;
  int64_t tokens = 0;          // of the examples, after cutting
  int64_t learnt = 0;          // labels that are not -100
  int64_t truncated = 0;       // examples that lost tokens
  int64_t nothing_learnt = 0;  // examples without any label: they cost time and teach nothing
  int64_t longest = 0;         // tokens of the longest row, uncut
  std::vector<SkippedRows> skipped;
  std::array<int64_t, 40> lengths{};  // [b] counts rows of 2^b .. 2^(b+1) - 1 tokens, uncut

  // Several lines for people: counts, what was left out, and the histogram of lengths.
  std::string Text() const;
};

struct PreparedDataset {
  std::vector<Example> examples;
  DatasetReport report;
};

absl::StatusOr<PreparedDataset> PrepareDataset(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_H_
