// The account of preparing a data set, for people.
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

// Rows that have one thing in common.
struct CountedRows {
  std::string what;
  int64_t count = 0;
  std::string first;  // FILE:LINE (row N)
};

// One more row of that kind.
void CountRow(absl::string_view what, absl::string_view where, std::vector<CountedRows>& counted);

struct DatasetReport {
  int64_t rows = 0, examples = 0;
  int64_t tokens = 0;     // of the examples, after cutting; kto's mismatched documents left out
  int64_t learnt = 0;     // labels that are not -100
  int64_t truncated = 0;  // examples that lost tokens; where rows are packed, such rows
  int64_t starved = 0;    // rows that kept under a tenth of their labels, or fewer than four
  int64_t nothing_learnt = 0;  // examples with a document in which nothing is predicted: they cost
                               // time and teach nothing
  int64_t longest = 0;    // tokens of the longest row, uncut (of a pair: of its longer document)
  int64_t left_over = 0;  // tokens that fill no block where texts are packed
  std::vector<CountedRows> skipped;
  std::vector<CountedRows> noted;  // kept, but perhaps not what was meant: empty answers, pairs of
                                   // equal answers, one kind of tag
  std::array<int64_t, 40> lengths{};  // [b] counts rows of 2^b .. 2^(b+1) - 1 tokens, uncut
  bool packs = false;                 // an example is made of several rows, or of parts of them
  bool prompts = false;               // examples are prompts, of which nothing is learnt

  // Adds the tokens of an example; whether something is predicted in each of its documents that are
  // trained.
  bool CountTokens(const Example& example);

  // Adds an example of which nothing else is known: it was prepared before, and its length is what
  // is left of it.
  void CountPrepared(const Example& example);

  // A line where cutoff_len leaves most rows next to nothing to learn; else nothing.
  std::optional<std::string> CutWarning() const;

  // Adds what another data set's report counts.
  void Add(const DatasetReport& other);

  // Several lines: counts, what was left out, that warning and, of what is learnt, the histogram of
  // lengths. Of what is evaluated, without it.
  std::string Text(bool evaluated = false) const;

  // The same as one JSON object, for programs: the counts by these names; skipped and noted as
  // lists of {what, count, first}; lengths as a list of {from, to, rows}.
  std::string Json() const;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_REPORT_H_
