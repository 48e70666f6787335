#ifndef MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
#define MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_

// Pre-tokenization rules of byte-level tokenizers: how a text is split before merging. A GGUF file
// has only the rule's name (tokenizer.ggml.pre); a tokenizer.json has the rule itself.
//
// Each rule is taken from the published tokenizer.json of the models that use the name.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

struct GgufSplittingRule {
  const char* name;
  // Patterns of consecutive Split stages; empty: ByteLevel's built-in pattern (GPT-2's).
  absl::Span<const char* const> patterns;
  bool single_digits = false;  // a Digits stage follows
  bool nfc = false, ignore_merges = false, bos_by_default = false;
};

// UNIMPLEMENTED for an unknown name; the message lists the known ones.
absl::StatusOr<const GgufSplittingRule*> FindGgufSplittingRule(absl::string_view name);

// The first rule that splits in the same way as a tokenizer.json: by its pre_tokenizer, its
// normalizer (NFC or none) and whether its model ignores merges. If there is none, UNIMPLEMENTED
// with the unsupported stage.
absl::StatusOr<const GgufSplittingRule*> GgufSplittingRuleOf(const nlohmann::json& tokenizer);

// The stages of a tokenizer.json's normalizer or pre_tokenizer: the members of a Sequence, which
// has them under the key `list`; or the stage itself; none if it is null.
std::vector<nlohmann::json> TokenizerStages(const nlohmann::json& stage, const char* list);

// The "pre_tokenizer" of a tokenizer.json for this rule.
base::OrderedJson PreTokenizerOf(const GgufSplittingRule& rule);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
