#ifndef MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_
#define MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_

// Writes tensors as safetensors, in one file or in shards with an index. Files are written through
// StagedFiles, so either all of them appear or none. Tensors are cast and copied to the CPU one at
// a time: peak memory is one tensor's copy in addition to the caller's tensors.

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
  // Returns the tensor, on any device and in any dtype. Called once, when the tensor is written;
  // may throw.
  std::function<at::Tensor()> tensor;
};

// Writes all tensors, in the given order and with the metadata {"format": "pt"}, into a file that
// appears when `files` is committed. INVALID_ARGUMENT if a name occurs twice or safetensors lacks a
// dtype; errors of StagedFiles if the disk fails.
absl::Status StageSafetensors(StagedFiles& files, const std::string& file,
                              const std::vector<TensorToWrite>& tensors);

// Writes a single file, which appears complete or not at all. Creates its folder if necessary.
absl::Status WriteSafetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              Flush flush = Flush::kNow);

// Writes model.safetensors or, if the tensors take more than `shard_bytes`, the shards
// model-00001-of-0000N.safetensors, ... and model.safetensors.index.json. The files appear when
// `files` is committed. Tensors are put into shards in order, each up to `shard_bytes`; a larger
// tensor gets its own shard.
absl::Status StageShards(StagedFiles& files, const std::vector<TensorToWrite>& tensors,
                         int64_t shard_bytes);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_SAFETENSORS_WRITER_H_
