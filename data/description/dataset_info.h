// dataset_dir/dataset_info.json: maps a data set's name to the location of its rows and the names
// of their columns.
//
// The default column names apply only if the description has no `columns` (or `tags`) at all. If
// the description has `columns`, each key that is missing from `columns` means that there is no
// such column, even for `query` and `response`, as in LLaMA-Factory. Unknown keys are ignored,
// except for misspellings of known ones, which are errors. If a description names a folder, all its
// files are read, sorted by name, except for hidden files; they must be of one kind.
//
// Errors name the file, the data set and the key: no such file; broken JSON (line and column); an
// unknown name (with the nearest one); a value of the wrong type; a source that must be downloaded
// first; a missing or unsupported file. If there are several sources, the first of these counts, as
// in LLaMA-Factory: a hub's URL, script_url, cloud_file_name, file_name. `subset`, `folder` and
// `split` of a hub's data set are handled by the code that downloads it (FetchedFiles).
#ifndef MOONRING_DATA_DESCRIPTION_DATASET_INFO_H_
#define MOONRING_DATA_DESCRIPTION_DATASET_INFO_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/text/ordered_json.h"
#include "data/description/split_slices.h"

namespace moonring::data {

using Column = std::optional<std::string>;  // a key of the row; nullopt: no such column

struct Columns {
  bool named = false;  // the description has `columns`; otherwise these defaults apply
  Column prompt = "instruction", query = "input", response = "output", messages = "conversations";
  Column history, system, tools, images, videos, audios, chosen, rejected, kto_tag;
};

struct Tags {
  Column role_tag = "from", content_tag = "value";
  Column user_tag = "human", assistant_tag = "gpt", observation_tag = "observation",
         function_tag = "function_call", system_tag = "system";
};

struct DatasetDescription {
  std::string name;
  std::vector<std::string> files;  // existing files of one kind (data/files/file_kind.h)
  std::vector<SplitSlice> slices;  // selected rows (data/description/split_slices.h); empty: all
  std::optional<int64_t>
      num_samples;  // rows drawn at random (data/mixing/row_sampler.h); nullopt: all
  std::string formatting = "alpaca";
  bool ranking = false;
  Columns columns;
  Tags tags;
};

// The files of a data set that dataset_info.json does not name: the downloaded ones of one split of
// a hub's data set, or those of a data set that is given by its path. `split` selects slices of
// their rows, for example "train[:100]"; the split is called train here, whatever its name on the
// hub. `entry`: JSON to use in place of the entry in dataset_info.json; empty: there is one.
struct FetchedFiles {
  std::vector<std::string> files;
  std::string split = "train";
  std::string entry;
};

// Descriptions of `names`, in that order. `formats`: the allowed values of "formatting"
// (data/formats/format_table.h). `fetched`: data sets whose files are given here, by name;
// dataset_info.json may be missing if each of them has an entry. If dataset_dir is ONLINE, each
// name is a data set on the hub with default settings. `is_checkout`: dataset_dir is a checkout in
// the hub's cache (two folders below the repository's folder) with untrusted descriptions: each
// file_name must be inside it, and links must not lead out of the repository's folder.
absl::StatusOr<std::vector<DatasetDescription>> ReadDatasetInfo(
    const std::string& dataset_dir, absl::Span<const std::string> names,
    const std::vector<std::string>& formats,
    const std::map<std::string, FetchedFiles>& fetched = {}, bool is_checkout = false);

// The description of rows that are not in a file. Uses the keys formatting, ranking, columns and
// tags of `entry`; any other key is an error.
absl::StatusOr<DatasetDescription> DescribeRows(const std::string& name,
                                                const nlohmann::json& entry,
                                                const std::vector<std::string>& formats);

// The keys that DescribeRows reads, as JSON, for a description.
base::OrderedJson DescriptionJson(const DatasetDescription& description);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_DATASET_INFO_H_
