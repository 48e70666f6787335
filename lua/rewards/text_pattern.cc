#include "lua/rewards/text_pattern.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/pcre2_handles.h"

namespace moonring::lua {
namespace {

constexpr uint32_t kSteps = 10'000'000;
constexpr uint32_t kKilobytes = 256 << 10;  // memory limit of a search

}  // namespace

// The pattern is interpreted. JIT compilation would need a separate stack limit, and texts are too
// short to gain from it.
struct TextPattern::Program {
  base::Pcre2Code code;
  base::Pcre2MatchContext context;
};

TextPattern::TextPattern(std::string text, std::unique_ptr<Program> program)
    : text_(std::move(text)), program_(std::move(program)) {}
TextPattern::~TextPattern() = default;

absl::StatusOr<std::shared_ptr<TextPattern>> TextPattern::Compile(std::string pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto program = std::make_unique<Program>();
  program->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY, &error,
      &offset, nullptr));
  if (program->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pattern '", pattern, "': ", base::Pcre2Message(error), ", at character ", offset + 1));
  }
  program->context.reset(pcre2_match_context_create(nullptr));
  if (program->context == nullptr) return absl::ResourceExhaustedError("no memory for a pattern");
  pcre2_set_match_limit(program->context.get(), kSteps);
  pcre2_set_heap_limit(program->context.get(), kKilobytes);
  return std::shared_ptr<TextPattern>(new TextPattern(std::move(pattern), std::move(program)));
}

absl::StatusOr<std::optional<TextPattern::Match>> TextPattern::Find(absl::string_view text) const {
  const base::Pcre2MatchData data(
      pcre2_match_data_create_from_pattern(program_->code.get(), nullptr));
  if (data == nullptr) return absl::ResourceExhaustedError("no memory for a pattern's match");
  const int found = pcre2_match(program_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), 0, 0, data.get(), program_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pattern '", text_, "': the search gave up: ", base::Pcre2Message(found)));
  }
  const PCRE2_SIZE* const spans = pcre2_get_ovector_pointer(data.get());
  Match match;
  const uint32_t groups = pcre2_get_ovector_count(data.get());
  for (uint32_t i = 0; i < groups; ++i) {
    const PCRE2_SIZE begin = spans[2 * i], end = spans[2 * i + 1];
    // If the pattern contains \K, a match may begin after its end; such a group counts as
    // unmatched.
    const bool there = static_cast<int>(i) < found && begin != PCRE2_UNSET && begin <= end;
    match.push_back(there ? std::optional<std::string>(text.substr(begin, end - begin))
                          : std::nullopt);
  }
  return std::optional<Match>(std::move(match));
}

}  // namespace moonring::lua
