#ifndef MOONRING_MODEL_FILES_SHARD_INDEX_H_
#define MOONRING_MODEL_FILES_SHARD_INDEX_H_

// Reads the index of a model that is split into several files (shards):
// model.safetensors.index.json or pytorch_model.bin.index.json, which contains {"weight_map":
// {tensor: file}}.

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::model {

// Returns a map from tensor name to file name. INVALID_ARGUMENT, naming index and tensor, if
// weight_map is not such a map or if a file name contains a folder; NOT_FOUND if `dir` has no file
// `index_name`.
absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& dir,
                                                                  const std::string& index_name);

// Improves the message of `opening`, the status of opening `shard`. If the file does not exist,
// returns NOT_FOUND with the message "models/x: the shard b.bin, which pytorch_model.bin.index.json
// names, is missing"; otherwise returns `opening`.
absl::Status ShardStatus(const absl::Status& opening, const std::string& dir,
                         const std::string& shard, const std::string& index_name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SHARD_INDEX_H_
