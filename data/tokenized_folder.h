// Prepared examples on disk: `tokenized_path`. The folder is what the datasets library's
// save_to_disk writes, so that LLaMA-Factory's folders are read here and these are read there:
//
//   dataset_dict.json                          {"splits": ["train", "validation", ..]}
//   SPLIT/data-00000-of-00001.arrow            rows of data/example_table.h, as an Arrow stream
//   SPLIT/dataset_info.json, SPLIT/state.json  the columns' types; the names of the files
//
// Splits are train, and validation or one validation_NAME for each data set that is evaluated by
// itself. A folder without dataset_dict.json is its own split, train.
//
// Save writes beside the folder and renames: it is there whole or not at all. Fails, naming the
// file and where there is one the row: a folder that is not such a one, or lacks a part; columns of
// another stage (data/example_table.h); Arrow's library missing; the disk.
#ifndef MOONRING_DATA_TOKENIZED_FOLDER_H_
#define MOONRING_DATA_TOKENIZED_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/description/stage.h"
#include "data/example.h"
#include "data/example_builder.h"

namespace moonring::data {

// Whether there is something to load: a folder that is not empty, as LLaMA-Factory decides.
bool HasTokenized(const std::string& folder);

absl::Status SaveTokenized(const std::string& folder,
                           const std::map<std::string, const std::vector<Example>*>& splits,
                           Stage stage);

// The files of the split train, in the order of its rows: for who reads them as a stream.
absl::StatusOr<std::vector<std::string>> TokenizedTrainFiles(const std::string& folder);

// `pad`: what pretraining does not learn. length_column: where a row has one of this name, it is
// the example's length (length_column_name); INVALID_ARGUMENT where it is no whole number then, or
// another row has none. with_train: false: without the split train.
absl::StatusOr<std::map<std::string, PreparedDataset>> LoadTokenized(
    const std::string& folder, Stage stage, int32_t pad, const std::string& length_column = "",
    bool with_train = true);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TOKENIZED_FOLDER_H_
