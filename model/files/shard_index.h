#ifndef MOONRING_MODEL_FILES_SHARD_INDEX_H_
#define MOONRING_MODEL_FILES_SHARD_INDEX_H_

// The index of a model that is split into several files, {"weight_map": {tensor: file}}:
// model.safetensors.index.json, pytorch_model.bin.index.json.

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::model {

// Returns a map from tensor to file name in `dir`. INVALID_ARGUMENT, naming index and tensor, if
// weight_map is not such a map or a file name is not a plain name in `dir`; NOT_FOUND if there is
// no such index.
absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& dir,
                                                                  const std::string& index_name);

// Returns `opening`, the status of opening `shard`; if the file does not exist, with the message
// "models/x: the shard b.bin, which pytorch_model.bin.index.json names, is missing".
absl::Status ShardStatus(const absl::Status& opening, const std::string& dir,
                         const std::string& shard, const std::string& index_name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SHARD_INDEX_H_
