// Prepared examples on disk (`tokenized_path`), in the format of save_to_disk of the datasets
// library: LLaMA-Factory and Moonring can read each other's folders.
//
//   dataset_dict.json                          {"splits": ["train", "validation", ..]}
//   SPLIT/data-00000-of-00001.arrow            rows of data/example_table.h, as an Arrow stream
//   SPLIT/dataset_info.json, SPLIT/state.json  the columns' types; the names of the files
//
// The splits are train, and validation or one validation_NAME for each data set that is evaluated
// separately. A folder without dataset_dict.json is itself the split train.
//
// SaveTokenized writes to a temporary folder and renames it, so the folder is complete or absent.
// Errors name the file and, where known, the row: a folder in another format or with missing files;
// columns of another stage (data/example_table.h); Arrow's library is missing; disk errors.
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

// Whether the folder exists and is not empty, which is LLaMA-Factory's criterion for loading it.
bool HasTokenized(const std::string& folder);

absl::Status SaveTokenized(const std::string& folder,
                           const std::map<std::string, const std::vector<Example>*>& splits,
                           Stage stage);

// The Arrow files of the split train, in row order, for reading them as a stream.
absl::StatusOr<std::vector<std::string>> TokenizedTrainFiles(const std::string& folder);

// `pad`: the id that has no label in pretraining. length_column (length_column_name): the column
// with the example's length, used if a row has it; INVALID_ARGUMENT if its value is not an integer
// or if only some rows have it. with_train = false: the split train is not loaded.
absl::StatusOr<std::map<std::string, PreparedDataset>> LoadTokenized(
    const std::string& folder, Stage stage, int32_t pad, const std::string& length_column = "",
    bool with_train = true);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TOKENIZED_FOLDER_H_
