// Lua bindings to read and write safetensors files.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/status/status_macros.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "model/files/safetensors.h"
#include "model/files/safetensors_writer.h"

namespace moonring::lua {
namespace {

absl::Status WriteTensors(std::string path, std::map<std::string, at::Tensor> tensors,
                          Options options) {
  const model::Flush flush =
      options.Get<bool>("flush", true) ? model::Flush::kNow : model::Flush::kLater;
  options.Finish();
  std::vector<model::TensorToWrite> written;
  for (const auto& [name, tensor] : tensors)
    written.push_back(
        {name, tensor.sizes().vec(), tensor.scalar_type(), [tensor = tensor] { return tensor; }});
  return model::WriteSafetensors(path, written, flush);
}

absl::StatusOr<std::map<std::string, at::Tensor>> ReadTensors(std::string path) {
  ASSIGN_OR_RETURN(const auto file, model::SafetensorsFile::Open(path));
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : file->entries()) {
    ASSIGN_OR_RETURN(tensors[name], file->Read(name));
  }
  return tensors;
}

}  // namespace

void OpenSafetensors(lua_State* L) {
  PushModule(L, "moonring.safetensors",
             {{"write", Bind<&WriteTensors>}, {"read", Bind<&ReadTensors>}});
}

}  // namespace moonring::lua
