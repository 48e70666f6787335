#include "base/text/nearest_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace moonring::base {
namespace {

// Optimal string alignment distance, computed with three rows of its table.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> two_back(b.size() + 1), back(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, back);
    std::swap(back, row);
  }
  return back[b.size()];
}

// Returns "_words_of_a_name_", in lower case.
std::string Words(absl::string_view name) {
  return absl::StrCat("_", absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"-", "_"}}), "_");
}

// Returns the known names that contain all words of `name` next to each other, as lion_32bit does
// for lion; none if there are more than three.
std::vector<std::string> NamesWithWords(absl::string_view name,
                                        absl::Span<const std::string> known) {
  constexpr size_t kLeast = 3, kMost = 3;  // letters; names
  std::vector<std::string> found;
  if (name.size() < kLeast) return found;
  const std::string words = Words(name);
  for (const std::string& candidate : known) {
    if (absl::StrContains(Words(candidate), words)) found.push_back(candidate);
  }
  if (found.size() > kMost) found.clear();
  return found;
}

}  // namespace

std::string NearestName(absl::string_view name, absl::Span<const std::string> known) {
  const std::string wanted = absl::AsciiStrToLower(name);
  std::string nearest;
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  constexpr size_t kMost = 200;  // bytes; a longer name is not a typing mistake
  if (name.size() > kMost) return nearest;
  for (const std::string& candidate : known) {
    if (candidate.size() >= name.size() + best) continue;  // needs too many insertions
    const size_t distance = EditDistance(wanted, absl::AsciiStrToLower(candidate));
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view name, absl::Span<const std::string> known) {
  std::vector<std::string> meant = {NearestName(name, known)};
  if (meant[0].empty()) meant = NamesWithWords(name, known);
  return meant.empty() ? ""
                       : absl::StrCat(" (did you mean '", absl::StrJoin(meant, "' or '"), "'?)");
}

}  // namespace moonring::base
