// A tokenizer of a few tokens, for fuzz targets that need a tokenizer but do not fuzz it.
#ifndef MOONRING_TESTS_FUZZ_SMALL_TOKENIZER_H_
#define MOONRING_TESTS_FUZZ_SMALL_TOKENIZER_H_

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "data/text/tokenizer.h"

namespace moonring::fuzz {

inline std::shared_ptr<const data::Tokenizer> SmallTokenizer() {
  auto tokenizer = data::Tokenizer::FromJson(
      R"({"model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", )"
      R"("max_input_chars_per_word": 9,
                                                           "vocab": {"?": 0, "a": 1, "{": 2, )"
      R"("}": 3, "\"": 4}},
                                                 "pre_tokenizer": {"type": "BertPreTokenizer"}, )"
      R"("normalizer": null, "decoder": {"type": "Fuse"},
                                                 "added_tokens": [{"id": 5, "content": "</s>", )"
      R"("special": true}]})",
      R"({"eos_token": "</s>"})", "tokenizer.json");
  if (tokenizer.ok()) return *tokenizer;
  std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
  std::exit(2);
}

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_SMALL_TOKENIZER_H_
