// Fuzzes tokenizer files other than tokenizer.json: sentencepiece models, tiktoken's ranks, and
// Mistral's tekken.json, recognized by their contents. Input: tokenizer_config.json, then the file.
#include <cstdint>
#include <string>

#include "data/text/tokenizer.h"
#include "tests/fuzz/parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using moonring::data::Tokenizer;
  const std::vector<std::string> parts = moonring::fuzz::PartsOfInput(data, size, 2);
  const auto tokenizer = Tokenizer::FromModelFile(parts[1], parts[0], "input");
  if (!tokenizer.ok()) return 0;
  const std::string text = "Hello,  w\u00f6rld \u2581\u4f60\u597d\U0001f600 \xff e\u0301 12\n\n<s>";
  for (const int32_t id : (*tokenizer)->Encode(text)) {
    if (id < 0 || id >= (*tokenizer)->end_id()) __builtin_trap();
  }
  (*tokenizer)->Decode((*tokenizer)->Encode(text));
  return 0;
}
