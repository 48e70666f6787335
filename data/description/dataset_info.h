// dataset_dir/dataset_info.json: name -> where the rows of a data set are and what their columns
// are called.
//
// The defaults hold only where the description has no `columns` (or `tags`) at all: where it has,
// each key absent from it means that there is no such column, even `query` and `response`. Users'
// files count on it. Keys that are not known are passed over, but for one that is nearly a known
// one: that is a slip, and an error. A folder stands for its files in the order of their names
// (hidden ones left out), all of one kind.
//
// Fails, each with the file, the data set and the key: no such file; broken JSON (line and column);
// a name that is not there (with the nearest); a value of a wrong type; a source that must be
// downloaded first; a missing or unsupported file. Of several sources the first of these counts, as
// in LLaMA-Factory: a hub's URL, script_url, cloud_file_name, file_name. What of a hub's data set
// `subset`, `folder` and `split` name is for who downloads it (FetchedFiles).
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

using Column =
    std::optional<std::string>;  // the name of a row's key; none: the data set has no such column

struct Columns {
  bool named = false;  // by the description; else these defaults
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
  std::vector<std::string> files;  // existing, of one kind (data/files/file_kind.h)
  std::vector<SplitSlice> slices;  // of the rows (data/description/split_slices.h); none: all
  std::optional<int64_t>
      num_samples;  // rows drawn at random of these (data/mixing/row_sampler.h); none: all
  std::string formatting = "alpaca";
  bool ranking = false;
  Columns columns;
  Tags tags;
};

// Of a data set that lies on a hub: its split's files, downloaded, and what of `split` is asked of
// their rows ("train[:100]": whatever the split is called).
struct FetchedFiles {
  std::vector<std::string> files;
  std::string split = "train";
};

// Descriptions of `names`, in that order. `formats`: what "formatting" may be
// (data/formats/format_table.h). `fetched`: by name. With dataset_dir ONLINE each name is that of a
// hub's data set, and all is as by default. `is_checkout`: dataset_dir is one of the hub's cache
// (two folders below the repository's), and somebody else wrote its descriptions: each
// file_name is a name inside of it, and no link there leads out of the repository's folder.
absl::StatusOr<std::vector<DatasetDescription>> ReadDatasetInfo(
    const std::string& dataset_dir, absl::Span<const std::string> names,
    const std::vector<std::string>& formats,
    const std::map<std::string, FetchedFiles>& fetched = {}, bool is_checkout = false);

// The description of rows that no file holds: what of `entry` says how they are to be read
// (formatting, ranking, columns, tags; any other key is refused).
absl::StatusOr<DatasetDescription> DescribeRows(const std::string& name,
                                                const nlohmann::json& entry,
                                                const std::vector<std::string>& formats);

// What DescribeRows reads, of a description.
base::OrderedJson DescriptionJson(const DatasetDescription& description);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_DATASET_INFO_H_
