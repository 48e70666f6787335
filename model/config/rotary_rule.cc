#include "model/config/rotary_rule.h"

#include "absl/strings/str_cat.h"

namespace moonring::model {

absl::string_view RopeName(RopeKind kind) {
  constexpr absl::string_view kNames[] = {"default", "linear",   "dynamic",     "yarn",
                                          "llama3",  "longrope", "proportional"};
  return kNames[static_cast<int>(kind)];
}

std::string DescribeRope(const RotaryRule& rule) {
  std::string text(RopeName(rule.kind));
  if (rule.kind == RopeKind::kDefault) return text;
  if (rule.kind != RopeKind::kLongRope) absl::StrAppend(&text, ", factor ", rule.factor);
  if (rule.kind == RopeKind::kProportional)
    return absl::StrCat(text, ", ", rule.turning_pairs, " of ", rule.dim / 2, " pairs rotated");
  if (rule.kind != RopeKind::kLinear)
    absl::StrAppend(&text, " over ", rule.original_length, " positions");
  if (rule.attention_factor != 1.0)
    absl::StrAppend(&text, ", cosines times ", rule.attention_factor);
  if (rule.query_growth != 0.0) absl::StrAppend(&text, ", queries grow by ", rule.query_growth);
  return text;
}

}  // namespace moonring::model
