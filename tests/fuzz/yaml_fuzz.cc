#include <cstdint>
#include <string>

#include "lua/bindings/yaml_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)moonring::lua::ParseYaml(std::string(reinterpret_cast<const char*>(data), size), "input");
  return 0;
}
