// Statistics of preparing a data set, as text and JSON.
#ifndef MOONRING_DATA_DATASET_REPORT_H_
#define MOONRING_DATA_DATASET_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/example.h"

namespace moonring::data {

// A group of rows that were skipped or noted for the same reason.
struct CountedRows {
  std::string what;
  int64_t count = 0;
  std::string first;  // first such row: FILE:LINE (row N)
};

// Adds one row to the entry `what`; creates the entry, with `where` as its first row, if it is new.
void CountRow(absl::string_view what, absl::string_view where, std::vector<CountedRows>& counted);

struct DatasetReport {
  int64_t rows = 0, examples = 0;
  int64_t tokens = 0;     // in the examples, after truncation; without kto's mismatched documents
  int64_t learnt = 0;     // labels that are not -100
  int64_t truncated = 0;  // number of truncated examples; with packing, of truncated rows
  int64_t starved = 0;    // rows that kept under a tenth of their labels, or fewer than four
  // examples with a document that has no token to predict: they cost time and contribute no
  // gradient
  int64_t nothing_learnt = 0;
  // tokens of the longest row before truncation (of a pair: its longer document)
  int64_t longest = 0;
  int64_t left_over = 0;  // tokens dropped because they do not fill a packed block
  std::vector<CountedRows> skipped;
  // rows that are kept but may be mistakes: empty answers, pairs of equal answers, kto tags that
  // are all the same
  std::vector<CountedRows> noted;
  std::array<int64_t, 40> lengths{};  // [b]: rows of 2^b .. 2^(b+1) - 1 tokens before truncation
  bool packs = false;                 // an example consists of several rows, or of pieces of them
  bool prompts = false;               // examples are prompts, without labels

  // Adds the tokens of an example. Returns whether each of its trained documents has a token to
  // predict.
  bool CountTokens(const Example& example);

  // Adds an example that was tokenized before. Its length before truncation is unknown, so the
  // present length is counted.
  void CountPrepared(const Example& example);

  // A warning if cutoff_len removes most labels of most rows; otherwise nullopt.
  std::optional<std::string> CutWarning() const;

  // Adds the counts of another data set's report.
  void Add(const DatasetReport& other);

  // Text of several lines: the counts, the skipped rows, CutWarning() and, for training sets
  // (evaluated = false), the histogram of lengths.
  std::string Text(bool evaluated = false) const;

  // The report as one JSON object. Counts have the names of the fields here; skipped and noted are
  // lists of {what, count, first}; lengths is a list of {from, to, rows}.
  std::string Json() const;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_REPORT_H_
