// Fuzzes sentencepiece's character map, which is stored in its model files and, in base64, in
// tokenizer.json.
#include <cstdint>

#include "data/text/tokenizer/characters_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using moonring::data::CharactersMap;
  const auto map = CharactersMap::Parse({reinterpret_cast<const char*>(data), size});
  if (!map.ok()) return 0;
  for (const absl::string_view text :
       {"a", "\u00c5ngstr\u00f6m", "\uff21\uff22", "\t ", "\u3000x", "\u00bd"}) {
    for (size_t at = 0; at < text.size(); ++at) {
      (void)map->Find(text.substr(at), CharactersMap::Prefer::kShortest);
      (void)map->Find(text.substr(at), CharactersMap::Prefer::kLongest);
    }
  }
  return 0;
}
