#include "data/text/tokenizer/characters_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

uint32_t LittleEndian(absl::string_view bytes, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i]));
  };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

// Bit fields of a unit of the double array.
bool HasValue(uint32_t unit) { return unit >> 8 & 1; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

absl::StatusOr<CharactersMap> CharactersMap::Parse(absl::string_view bytes) {
  constexpr size_t kUnit = sizeof(uint32_t);
  const size_t size = bytes.size() < kUnit ? 0 : LittleEndian(bytes, 0);
  if (size == 0 || size % kUnit != 0 || size > bytes.size() - kUnit) {
    return absl::InvalidArgumentError(absl::StrCat("a map of characters of ", bytes.size(),
                                                   " bytes does not hold a trie of ", size));
  }
  CharactersMap map;
  map.units_.reserve(size / kUnit);
  for (size_t at = kUnit; at < kUnit + size; at += kUnit)
    map.units_.push_back(LittleEndian(bytes, at));
  map.replacements_ = std::string(bytes.substr(kUnit + size));
  if (ValidUtf8Prefix(map.replacements_) < map.replacements_.size())
    return absl::InvalidArgumentError("a map of characters whose replacements are not UTF-8");
  return map;
}

std::optional<absl::string_view> CharactersMap::ReplacementAt(uint32_t begin) const {
  const absl::string_view all = replacements_;
  if (begin >= all.size() || (static_cast<uint8_t>(all[begin]) & 0xC0) == 0x80)
    return std::nullopt;  // inside a character
  return all.substr(begin, all.find('\0', begin) - begin);
}

std::optional<CharactersMap::Match> CharactersMap::Find(absl::string_view text,
                                                        Prefer prefer) const {
  std::optional<Match> found;
  uint32_t node = Offset(units_[0]);
  for (size_t at = 0; at < text.size() && text[at] != '\0'; ++at) {
    const uint32_t byte = static_cast<uint8_t>(text[at]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasValue(unit) || node >= units_.size()) continue;
    const auto replacement = ReplacementAt(Value(units_[node]));
    if (!replacement.has_value()) continue;
    found = Match{at + 1, *replacement};
    if (prefer == Prefer::kShortest) break;
  }
  return found;
}

}  // namespace moonring::data
