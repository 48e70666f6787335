// Fuzzes the files of a tokenizer, a text that it encodes and decodes, and the files that are
// written after adding a token. Input: tokenizer.json, the text, tokenizer_config.json,
// special_tokens_map.json, added_tokens.json.
#include <cstdint>

#include "data/text/tokenizer_files.h"
#include "tests/fuzz/parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring::data;
  const std::vector<std::string> parts = moonring::fuzz::PartsOfInput(data, size, 5);
  TokenizerFiles files;
  const char* kNames[] = {"tokenizer.json", nullptr, "tokenizer_config.json",
                          "special_tokens_map.json", "added_tokens.json"};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (kNames[i] != nullptr && (i == 0 || !parts[i].empty())) files[kNames[i]] = parts[i];
  }
  const auto tokenizer = OpenTokenizer(files, "folder", {.add_tokens = {"<new>"}});
  if (!tokenizer.ok()) return 0;
  for (const std::string& text : {parts[1], std::string("Hello, w\u00f6rld <new> 12\n\n")}) {
    const std::vector<int32_t> ids = (*tokenizer)->Encode(text);
    for (const int32_t id : ids) {
      if (id < 0 || id >= (*tokenizer)->end_id()) __builtin_trap();
    }
    (*tokenizer)->Decode(ids);
    (*tokenizer)->Decode(ids, /*skip_special=*/true);
  }
  const auto changed =
      ChangedFiles(files, *Tokenizer::WithStopWords(*tokenizer, "<end>", {"<stop>"}));
  if (!changed.ok()) return 0;
  // The written files are a valid tokenizer.
  for (const auto& [name, contents] : *changed) files[name] = contents;
  if (!OpenTokenizer(files, "folder").ok()) __builtin_trap();
  return 0;
}
