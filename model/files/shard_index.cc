#include "model/files/shard_index.h"

#include "absl/strings/str_cat.h"
#include "base/files/input_file.h"
#include "base/files/inside_name.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/mapped_file.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

using nlohmann::json;

absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& dir,
                                                                  const std::string& index_name) {
  const std::string path = absl::StrCat(dir, "/", index_name);
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  ASSIGN_OR_RETURN(const auto text, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const json root, ParseJsonObject(text->bytes(), path));
  const JsonFields fields(root, path);
  const json* map = fields.Find("weight_map");
  if (map == nullptr || !map->is_object())
    return fields.Wrong("weight_map", "an object from tensor to file");
  std::map<std::string, std::string> shards;
  for (const auto& [name, value] : map->items()) {
    const std::string where = absl::StrCat(path, ": weight_map: ", Shown(name));
    if (!value.is_string())
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": expected a file name, got ", ShownJson(value)));
    const std::string& shard = value.get_ref<const std::string&>();
    RETURN_IF_ERROR(base::CheckPlainName(shard), where);
    shards[name] = shard;
  }
  return shards;
}

absl::Status ShardStatus(const absl::Status& opening, const std::string& dir,
                         const std::string& shard, const std::string& index_name) {
  if (!absl::IsNotFound(opening)) return opening;
  return absl::NotFoundError(absl::StrCat(dir, ": the shard ", Shown(shard), ", which ", index_name,
                                          " names, is missing"));
}

}  // namespace moonring::model
