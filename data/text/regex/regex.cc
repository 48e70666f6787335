#include "data/text/regex/regex.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/pcre2_handles.h"
#include "data/text/regex/oniguruma_pattern.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

// Step limits of one search. Nested quantifiers can take more steps than there are atoms in the
// universe; the patterns in use take a few steps per byte.
constexpr uint64_t kLeastSteps = 10'000'000, kStepsOfByte = 100;
constexpr size_t kLongText =
    kLeastSteps / kStepsOfByte;  // from this length on, the limit grows with the text

// Time limit of one Split. Each search may be within its step limit while all together take
// quadratic time, for example with a lookahead to the end of the text at each byte. PCRE2 does not
// report the steps of a search. The patterns in use take a hundredth of this time.
class SplitClock {
 public:
  explicit SplitClock(size_t bytes)
      : end_(std::chrono::steady_clock::now() + std::chrono::seconds(10) +
             std::chrono::microseconds(10 * bytes)) {}

  bool IsOver() {
    constexpr int kSearches = 16;
    if (++searches_ % kSearches != 0) return false;
    return std::chrono::steady_clock::now() > end_;
  }

 private:
  const std::chrono::steady_clock::time_point end_;
  int64_t searches_ = 0;
};

constexpr size_t kLargeStack =
    size_t{256} << 20;  // reserved, only touched by searches that exceed the machine stack

}  // namespace

struct Regex::Program {
  base::Pcre2Code code;
  bool jit = false;
  base::Pcre2MatchContext context;

  // Returns a match context with a higher step limit for a long text; null for other texts, for
  // which `context` is used.
  base::Pcre2MatchContext ContextFor(absl::string_view text) const {
    if (text.size() <= kLongText) return nullptr;
    base::Pcre2MatchContext made(pcre2_match_context_copy(context.get()));
    if (made == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(made.get(), static_cast<uint32_t>(std::min<uint64_t>(
                                          kStepsOfByte * text.size(), UINT32_MAX)));
    return made;
  }

  // PCRE2's result: the number of pairs set in `match`, or an error code.
  int Search(absl::string_view text, size_t start, pcre2_match_data* match,
             pcre2_match_context* limits) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (!jit)
      return pcre2_match(code.get(), subject, text.size(), start, PCRE2_NO_UTF_CHECK, match,
                         limits);
    const int result = pcre2_jit_match(code.get(), subject, text.size(), start, 0, match, limits);
    if (result != PCRE2_ERROR_JIT_STACKLIMIT) return result;
    const base::Pcre2JitStack stack(pcre2_jit_stack_create(size_t{1} << 20, kLargeStack, nullptr));
    const base::Pcre2MatchContext larger(pcre2_match_context_copy(limits));
    if (stack == nullptr || larger == nullptr) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(larger.get(), nullptr, stack.get());
    return pcre2_jit_match(code.get(), subject, text.size(), start, 0, match, larger.get());
  }
};

Regex::Regex(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Regex::~Regex() = default;

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(absl::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string rewritten, RewriteOnigurumaPattern(pattern), "pattern \"",
                   pattern, "\"");
  auto regex = CompileRewritten(rewritten);
  if (!regex.ok()) return base::WithContext(regex.status(), "pattern \"", pattern, "\"");
  return regex;
}

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Literal(absl::string_view text) {
  std::string pattern;
  for (size_t at = 0; at < text.size();)
    absl::StrAppend(&pattern, "\\x{", absl::Hex(static_cast<uint32_t>(NextCodePoint(text, at))),
                    "}");
  return CompileRewritten(pattern);
}

absl::StatusOr<std::shared_ptr<const Regex>> Regex::CompileRewritten(absl::string_view pattern) {
  const base::Pcre2CompileContext context(pcre2_compile_context_create(nullptr));
  if (context == nullptr)
    return absl::ResourceExhaustedError("no memory to compile a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  base::Pcre2Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                                     context.get()));
  if (code == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(base::Pcre2Message(error), " (rewritten: \"",
                                                   pattern, "\", at byte ", offset, ")"));
  auto program = std::make_unique<Program>();
  // If JIT compilation is not allowed (on a hardened kernel), the program is interpreted, about ten
  // times slower.
  program->jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
  program->code = std::move(code);
  program->context.reset(pcre2_match_context_create(nullptr));
  if (program->context == nullptr)
    return absl::ResourceExhaustedError("no memory to compile a regular expression");
  pcre2_set_match_limit(program->context.get(), static_cast<uint32_t>(kLeastSteps));
  return std::shared_ptr<const Regex>(new Regex(std::move(program)));
}

void Regex::Split(absl::string_view text,
                  absl::FunctionRef<void(absl::string_view, bool)> visit) const {
  if (text.empty()) return visit(text, false);
  const base::Pcre2MatchData match(
      pcre2_match_data_create(1, nullptr));  // only the span of the whole match is needed
  if (match == nullptr) throw std::bad_alloc();
  const base::Pcre2MatchContext long_text = program_->ContextFor(text);
  pcre2_match_context* const limits =
      long_text != nullptr ? long_text.get() : program_->context.get();
  const PCRE2_SIZE* const span = pcre2_get_ovector_pointer(match.get());
  size_t done = 0;   // end of the visited pieces
  size_t start = 0;  // where the next search starts
  std::optional<size_t> last_end;
  SplitClock clock(text.size());
  while (start <= text.size()) {
    if (clock.IsOver())
      throw std::runtime_error(
          absl::StrCat("splitting a text of ", text.size(),
                       " bytes by a regular expression takes too long: its pattern looks at the "
                       "same characters again and again"));
    const int result = program_->Search(text, start, match.get(), limits);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      throw std::runtime_error(
          absl::StrCat("splitting a text of ", text.size(),
                       " bytes by a regular expression: ", base::Pcre2Message(result)));
    const size_t begin = span[0], end = span[1];
    if (begin == end && last_end == end) {  // skip an empty match directly after a match
      if (start == text.size()) break;
      NextCodePoint(text, start);
      continue;
    }
    if (done < begin) visit(text.substr(done, begin - done), false);
    visit(text.substr(begin, end - begin), true);
    done = start = end;
    last_end = end;
  }
  if (done < text.size()) visit(text.substr(done), false);
}

}  // namespace moonring::data
