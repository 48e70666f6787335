#ifndef MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_
#define MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_

// Writes tensors as safetensors, in one file or in shards with an index, among the staged files of
// a folder (so: all or nothing). Tensors are cast and brought to the host one at a time: the peak
// is one tensor's copy beside what the caller holds.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "model/files/staged_files.h"

namespace moonring::model {

struct TensorToWrite {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;  // in the file
  std::function<at::Tensor()>
      tensor;  // on any device, in any dtype; called once, when its turn comes; may throw
};

// Stages `file` with all tensors, in the order given, and metadata {"format": "pt"}.
// INVALID_ARGUMENT where a name comes twice or the format has no such dtype; StagedFiles' statuses
// where the disk fails.
absl::Status StageSafetensors(StagedFiles& files, const std::string& file,
                              const std::vector<TensorToWrite>& tensors);

// The same as a file by itself, which is there whole or not at all; its folder is made where there
// is none.
absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              Flush flush = Flush::kNow);

// Stages model.safetensors, or, where the tensors take more than `shard_bytes`,
// model-00001-of-0000N.safetensors, ... and model.safetensors.index.json. A shard is filled in
// order up to `shard_bytes`; a larger tensor has a shard to itself.
absl::Status StageShards(StagedFiles& files, const std::vector<TensorToWrite>& tensors,
                         int64_t shard_bytes);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_
