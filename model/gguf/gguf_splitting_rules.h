#ifndef MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
#define MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_

// Pre-tokenization rules of byte-level tokenizers: how a text is split before merging. A GGUF file
// contains only the name of the rule (tokenizer.ggml.pre); a tokenizer.json contains the rule
// itself.
//
// Each rule here is copied from the published tokenizer.json of models that use this name.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/text/ordered_json.h"
#include "nlohmann/json.hpp"

namespace moonring::model {

struct GgufSplittingRule {
  const char* name;
  // Regular expressions of consecutive Split stages; empty: the built-in pattern of ByteLevel
  // (GPT-2's).
  absl::Span<const char* const> patterns;
  bool single_digits = false;  // a Digits stage follows, which splits off each digit
  bool nfc = false, ignore_merges = false, bos_by_default = false;
};

// Finds a rule by its GGUF name. UNIMPLEMENTED for an unknown name; the message lists the known
// names.
absl::StatusOr<const GgufSplittingRule*> FindGgufSplittingRule(absl::string_view name);

// The first rule that splits texts in the same way as a tokenizer.json. Compares the pre_tokenizer,
// the normalizer (NFC or none) and the model's ignore_merges. UNIMPLEMENTED, naming the unsupported
// stage, if no rule does.
absl::StatusOr<const GgufSplittingRule*> GgufSplittingRuleOf(const nlohmann::json& tokenizer);

// The stages of `stage`, a normalizer or pre_tokenizer of a tokenizer.json. For a Sequence these
// are its members, under the key `list`; otherwise `stage` itself; none if it is null.
std::vector<nlohmann::json> TokenizerStages(const nlohmann::json& stage, const char* list);

// The value of "pre_tokenizer" in a tokenizer.json that has this rule.
base::OrderedJson PreTokenizerOf(const GgufSplittingRule& rule);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_SPLITTING_RULES_H_
