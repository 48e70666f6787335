#ifndef MOONRING_MODEL_FILES_TENSOR_FOLDER_H_
#define MOONRING_MODEL_FILES_TENSOR_FOLDER_H_

// The weights of a Hugging Face folder in one file format: a single file, or the shards listed in
// an index.
//
// The template argument File must have kFileName, kIndexName, a static Open(path), entries() (a map
// by tensor name), Describe(name) and Read(name), as SafetensorsFile and PickledFile do.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/shard_index.h"
#include "model/files/weight_store.h"

namespace moonring::model {

template <typename File>
class TensorFolder : public WeightStore {
 public:
  static bool IsIn(const std::string& dir) {
    return Exists(dir, File::kFileName) || Exists(dir, File::kIndexName);
  }

  // NOT_FOUND if the folder has neither kFileName nor kIndexName, or if a shard is missing;
  // INVALID_ARGUMENT if index and shards contradict each other.
  static absl::StatusOr<std::unique_ptr<TensorFolder>> Open(const std::string& dir) {
    auto folder = std::make_unique<TensorFolder>();
    if (Exists(dir, File::kFileName)) {
      ASSIGN_OR_RETURN(const auto file, File::Open(absl::StrCat(dir, "/", File::kFileName)));
      for (const auto& [name, entry] : file->entries()) folder->Add(name, file);
      return folder;
    }
    if (!IsIn(dir))
      return absl::NotFoundError(
          absl::StrCat(dir, ": no ", File::kFileName, " and no ", File::kIndexName));
    RETURN_IF_ERROR(folder->OpenShards(dir));
    return folder;
  }

  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }

  absl::StatusOr<at::Tensor> Read(const std::string& name) const override {
    const auto found = file_of_.find(name);
    if (found == file_of_.end()) return absl::NotFoundError(absl::StrCat("no tensor '", name, "'"));
    return found->second->Read(name);
  }

 private:
  static bool Exists(const std::string& dir, const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(absl::StrCat(dir, "/", name), ignored);
  }

  absl::Status OpenShards(const std::string& dir) {
    ASSIGN_OR_RETURN(const auto shard_of, ReadShardIndex(dir, File::kIndexName));
    std::map<std::string, std::shared_ptr<const File>> shards;
    for (const auto& [name, shard] : shard_of) {
      std::shared_ptr<const File>& file = shards[shard];
      if (file == nullptr) {
        auto opened = File::Open(absl::StrCat(dir, "/", shard));
        RETURN_IF_ERROR(ShardStatus(opened.status(), dir, shard, File::kIndexName));
        file = *std::move(opened);
      }
      if (!file->entries().contains(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat(dir, "/", File::kIndexName, ": weight_map: ", Shown(name), ": the shard ",
                         shard, " has no such tensor"));
      }
      Add(name, file);
    }
    return absl::OkStatus();
  }

  void Add(const std::string& name, const std::shared_ptr<const File>& file) {
    weights_[name] = file->Describe(name);
    file_of_[name] = file;
  }

  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, std::shared_ptr<const File>> file_of_;  // by tensor
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_TENSOR_FOLDER_H_
