#ifndef MOONRING_LUA_GGUF_OPTIONS_H_
#define MOONRING_LUA_GGUF_OPTIONS_H_

// What scripts say of a .gguf file that is written.

#include <string>

#include "lua/binding/options.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_gguf.h"

namespace moonring::lua {

// type and name, and of the checkpoint its tokenizer's files.
inline model::GgufOptions GgufOptionsOf(Options& options, const model::Checkpoint& checkpoint) {
  model::GgufOptions gguf;
  gguf.type = options.Require<std::string>("type");
  gguf.name = options.Get<std::string>("name", "");
  gguf.companions = checkpoint.companions();
  return gguf;
}

}  // namespace moonring::lua

#endif  // MOONRING_LUA_GGUF_OPTIONS_H_
