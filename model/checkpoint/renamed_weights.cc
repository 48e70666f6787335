#include "model/checkpoint/renamed_weights.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace moonring::model {
namespace {

// Renames a weight from the naming scheme `from` to the scheme `to`, by replacing the module at the
// beginning of its name. Returns `name` unchanged if it is neither in the text model nor in the
// head of `from`.
std::string Renamed(const std::string& name, const StoredNames& from, const StoredNames& to) {
  const auto within = [&](const std::string& module) {
    return absl::StartsWith(name, absl::StrCat(module, "."));
  };
  if (within(from.head)) return absl::StrCat(to.head, name.substr(from.head.size()));
  if (within(from.text)) return absl::StrCat(to.text, name.substr(from.text.size()));
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RenamedWeights>> RenamedWeights::Create(
    std::unique_ptr<WeightStore> files, const Family& family) {
  std::unique_ptr<RenamedWeights> renamed(new RenamedWeights);
  renamed->own_ = renamed->stored_ = family.stored_names.front();
  for (const StoredNames& names : family.stored_names) {
    const std::string embedding = Renamed(family.names.embedding + ".weight", renamed->own_, names);
    if (files->weights().contains(embedding)) renamed->stored_ = names;
  }
  for (const auto& [stored, weight] : files->weights()) {
    const std::string name = Renamed(stored, renamed->stored_, renamed->own_);
    if (!renamed->weights_.emplace(name, weight).second)
      return absl::InvalidArgumentError(
          absl::StrCat(weight.file, ": ", stored, ": another tensor is ", name, " too"));
  }
  renamed->files_ = std::move(files);
  return renamed;
}

absl::StatusOr<at::Tensor> RenamedWeights::Read(const std::string& name) const {
  return files_->Read(StoredName(name));
}

std::string RenamedWeights::StoredName(const std::string& name) const {
  return Renamed(name, own_, stored_);
}

}  // namespace moonring::model
