// The "Replace" of a tokenizer.json, of its normalizer and of its decoder: each match of a pattern
// becomes another text.
#ifndef MOONRING_DATA_TEXT_REGEX_REPLACEMENT_H_
#define MOONRING_DATA_TEXT_REGEX_REPLACEMENT_H_

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/regex/regex.h"

namespace moonring::data {

struct Replacement {
  std::shared_ptr<const Regex> pattern;
  std::string content;
  double growth = 1.0;  // how many times longer it makes a long text at most

  // {pattern: {Regex | String}, content}. Fails as data/text/json/json_fields.h and
  // data/text/regex/regex.h do, naming the place.
  static absl::StatusOr<Replacement> FromJson(const nlohmann::json& description,
                                              absl::string_view where);

  // Throws as Regex::Split, and std::runtime_error where more than `most` bytes are made.
  std::string Apply(absl::string_view text, size_t most) const;
};

// Each step of a chain can lengthen what the one before it has lengthened: a file of a few hundred
// bytes could ask for more memory than there is. INVALID_ARGUMENT where a chain's `growth`, the
// product of its steps', is beyond a million.
absl::Status CheckGrowth(double growth, absl::string_view where);

// What a tokenizer's own stages may make of a text of `size` bytes. (Of those in use U+FDFA grows
// most, by NFKC: eleven times.)
constexpr size_t MostRewritten(size_t size) { return (size_t{16} << 20) + 64 * size; }
// Throws std::runtime_error where `made` bytes are more.
void CheckRewritten(size_t made, size_t most);

// Stages of a normalizer, a pre-tokenizer or a decoder: each goes over all of a text.
inline constexpr size_t kMostStages = 100;

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_REPLACEMENT_H_
