// Fuzzes config.json, and the same values as GGUF metadata: a config that is accepted satisfies the
// invariants that the model's code relies on.
#include <cstdint>

#include "model/families/parse_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config =
      moonring::model::ParseConfig({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!config.ok()) return 0;
  if (config->vocab_size < 1 || config->heads < 1 || config->kv_heads < 1 ||
      config->heads % config->kv_heads != 0)
    __builtin_trap();
  if (config->layers != static_cast<int64_t>(config->layer_rules.size())) __builtin_trap();
  for (const int64_t id : config->eos_token_ids) {
    if (id < 0 || id >= config->vocab_size) __builtin_trap();
  }
  return 0;
}
