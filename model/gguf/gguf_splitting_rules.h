#ifndef MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
#define MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_

// How byte-level tokenizers cut a text before merging. A GGUF file only names the rule
// (tokenizer.ggml.pre); a tokenizer.json spells it out.
//
// Each rule is that of the published tokenizer.json of the models that carry the name. No rule is
// here whose source was not seen.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

struct GgufSplittingRule {
  const char* name;
  absl::Span<const char* const>
      patterns;                // one Split after another; none: ByteLevel's own (GPT-2's)
  bool single_digits = false;  // Digits, after them
  bool nfc = false, ignore_merges = false, bos_by_default = false;
};

// UNIMPLEMENTED, with the names that are known, for another one.
absl::StatusOr<const GgufSplittingRule*> FindGgufSplittingRule(absl::string_view name);

// The first rule that cuts as a tokenizer.json does: by its pre_tokenizer, its normalizer (NFC or
// none) and whether its model ignores merges. UNIMPLEMENTED, with what stands there, where none
// does.
absl::StatusOr<const GgufSplittingRule*> GgufSplittingRuleOf(const nlohmann::json& tokenizer);

// The stages of a tokenizer.json's normalizer or pre_tokenizer: those of a Sequence, whose key of
// them is `list`, one by one; none where it is null.
std::vector<nlohmann::json> TokenizerStages(const nlohmann::json& stage, const char* list);

// "pre_tokenizer" of the tokenizer.json.
base::OrderedJson PreTokenizerOf(const GgufSplittingRule& rule);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
