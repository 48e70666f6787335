// Builds training examples from named data sets: rows are read, converted, formatted with the chat
// template and truncated. Examples are in the order of `names`, and of the rows in each data set,
// unless `mix` specifies another order.
//
// Each row is read once and then dropped, so only the examples take memory (8 bytes per token).
// Interleaving data sets or drawing rows with num_samples costs 4 more bytes per token, and a row
// that is used twice counts twice. Skipped and truncated rows are counted and reported, with the
// first row of each kind; `overlong` decides what happens to rows longer than cutoff_len.
//
// Errors name the data set and, where known, the file, line and row. Possible errors: the
// description, the template or a row cannot be read; a data set of a kind that the stage does not
// accept; a column that no row has; no rows; rows but no example; no label left because cutoff_len
// is too small; a row that is too long with overlong = error; options that are out of range or
// contradictory.
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

// Returns {training set, validation set}. Rows, including those skipped later, are split as
// described in data/mixing/dataset_split.h, and each set is then prepared separately. In
// pretraining and kto, which process rows in batches, the two sets are therefore not subsets of the
// examples of the whole data set. All rows are kept in memory until both sets are prepared (4 more
// bytes per token). With `held_out_one_turn` the validation set is prepared with options.one_turn,
// and the files are read twice.
absl::StatusOr<std::pair<PreparedDataset, PreparedDataset>> PrepareSplit(
    const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer, double val_size,
    bool held_out_one_turn = false);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DATASET_H_
