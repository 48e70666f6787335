// "Replace" of a tokenizer.json's normalizer or decoder: each match of a pattern is replaced by a
// text.
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
  double growth = 1.0;  // upper bound of output length / input length

  // {pattern: {Regex | String}, content}. Fails as data/text/json/json_fields.h and
  // data/text/regex/regex.h do, naming the position.
  static absl::StatusOr<Replacement> FromJson(const nlohmann::json& description,
                                              absl::string_view where);

  // Throws like Regex::Split, and std::runtime_error if the result has more than `most` bytes.
  std::string Apply(absl::string_view text, size_t most) const;
};

// Limits the growth of a chain of steps: a file of a few hundred bytes could otherwise request more
// memory than exists. INVALID_ARGUMENT if `growth`, the product over the chain's steps, exceeds a
// million.
absl::Status CheckGrowth(double growth, absl::string_view where);

// Maximum output size of a tokenizer's stages for a text of `size` bytes. (The highest growth in
// the tokenizers in use is that of U+FDFA under NFKC: a factor of eleven.)
constexpr size_t MostRewritten(size_t size) { return (size_t{16} << 20) + 64 * size; }
// Throws std::runtime_error if `made` exceeds `most`.
void CheckRewritten(size_t made, size_t most);

// Maximum number of stages of a normalizer, pre-tokenizer or decoder; each stage processes the
// whole text.
inline constexpr size_t kMostStages = 100;

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_REPLACEMENT_H_
