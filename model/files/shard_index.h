#ifndef MOONRING_MODEL_FILES_SHARD_INDEX_H_
#define MOONRING_MODEL_FILES_SHARD_INDEX_H_

// The index of a model in several files, {"weight_map": {tensor: file}}:
// model.safetensors.index.json, pytorch_model.bin.index.json.

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::model {

// Tensor -> file of `dir`. INVALID_ARGUMENT naming index and tensor where the map is not one, or
// names a file that is not plainly of `dir`; NOT_FOUND where there is no such index.
absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& dir,
                                                                  const std::string& index_name);

// `opening`, what became of opening `shard`; where there is none: "models/x: the shard b.bin, which
// pytorch_model.bin.index.json names, is missing".
absl::Status ShardStatus(const absl::Status& opening, const std::string& dir,
                         const std::string& shard, const std::string& index_name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SHARD_INDEX_H_
