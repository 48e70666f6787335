#ifndef MOONRING_LUA_BINDINGS_GGUF_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_GGUF_OPTIONS_H_

// Reads the options for writing a .gguf file.

#include <string>

#include "lua/binding/options.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_gguf.h"

namespace moonring::lua {

// Reads the options `type` and `name`. The tokenizer's files are taken from the checkpoint.
inline model::GgufOptions GgufOptionsOf(Options& options, const model::Checkpoint& checkpoint) {
  model::GgufOptions gguf;
  gguf.type = options.Require<std::string>("type");
  gguf.name = options.Get<std::string>("name", "");
  gguf.companions = checkpoint.companions();
  return gguf;
}

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_GGUF_OPTIONS_H_
