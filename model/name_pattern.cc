#include "model/name_pattern.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/pcre2_handles.h"

namespace moonring::model {

absl::StatusOr<bool> NameMatches(const std::string& pattern, const std::string& name,
                                 std::string* group) {
  const auto wrong = [&](int error) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", pattern, "' is not a pattern of names: ", base::Pcre2Message(error)));
  };
  int error = 0;
  PCRE2_SIZE place = 0;
  const uint32_t ends = group == nullptr ? PCRE2_ENDANCHORED : 0;
  const base::Pcre2Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                           pattern.size(), PCRE2_ANCHORED | ends, &error, &place,
                                           nullptr));
  if (code == nullptr) return wrong(error);
  const base::Pcre2MatchContext limits(pcre2_match_context_create(nullptr));
  const base::Pcre2MatchData match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  pcre2_set_match_limit(limits.get(), kMatchLimit);
  const int groups = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                                 /*start=*/0, /*options=*/0, match.get(), limits.get());
  if (groups == PCRE2_ERROR_NOMATCH) return false;
  if (groups < 0) return wrong(groups);
  if (group != nullptr && groups > 1) {
    const PCRE2_SIZE* ranges = pcre2_get_ovector_pointer(match.get());
    *group = name.substr(ranges[2], ranges[3] - ranges[2]);
  }
  return true;
}

}  // namespace moonring::model
