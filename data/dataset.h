// Data sets by name -> training examples: read, converted, templated, cut, in the order of `names`
// and of their rows, or as `mix` says.
//
// Each row is read once and dropped: memory is what the examples take (8 bytes a token); where data
// sets are interleaved or num_samples draws rows, 4 bytes a token more, and rows that are taken
// again count again. What is left out or cut is counted and reported, with the first row of each
// kind; `overlong` says what to do with what does not fit in cutoff_len.
//
// Fails, naming the data set and where there is one the file, line and row: whatever reading the
// description, the template or a row can complain of; a data set of another kind than the stage's;
// a column that no row has; no row; rows but no example; nothing left to learn because cutoff_len
// is too small; a row too long under overlong = error; options out of range or at odds.
#ifndef MOONRING_DATA_DATASET_H_
#define MOONRING_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/dataset_options.h"
#include "data/example.h"
#include "data/example_builder.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

absl::StatusOr<PreparedDataset> PrepareDataset(const DatasetOptions& options,
                                               std::shared_ptr<const Tokenizer> tokenizer);

// {what is learnt, what is held out}: the rows, skipped ones included, are split as
// data/mixing/dataset_split.h says, and each part is prepared by itself. So with pretraining and
// feedback, whose batches of rows hang together, the parts are not parts of the whole's examples.
// All rows are held until both are prepared (4 bytes a token more). With `held_out_one_turn` what
// is held out is prepared with options.one_turn, and the files are read twice.
absl::StatusOr<std::pair<PreparedDataset, PreparedDataset>> PrepareSplit(
    const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer, double val_size,
    bool held_out_one_turn = false);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_H_
