#include "data/similarity/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr size_t kLongest = 4;

std::u32string CodePoints(absl::string_view text) {
  const std::string whole = ReplaceMalformedUtf8(text);
  std::u32string found;
  for (size_t at = 0; at < whole.size();) found.push_back(NextCodePoint(whole, at));
  return found;
}

using Counts = std::unordered_map<std::u32string_view, int64_t>;

Counts TextNgrams(std::u32string_view text, size_t n) {
  Counts counts;
  for (size_t at = 0; at + n <= text.size(); ++at) ++counts[text.substr(at, n)];
  return counts;
}

int64_t Matches(const Counts& prediction, const Counts& label) {
  int64_t matches = 0;
  for (const auto& [ngram, count] : prediction) {
    if (const auto found = label.find(ngram); found != label.end())
      matches += std::min(count, found->second);
  }
  return matches;
}

}  // namespace

double Bleu4(absl::string_view prediction, absl::string_view label) {
  const std::u32string guess = CodePoints(prediction), truth = CodePoints(label);
  double sum_of_logs = 0.0, halvings = 1.0;
  for (size_t n = 1; n <= kLongest; ++n) {
    const int64_t matches = Matches(TextNgrams(guess, n), TextNgrams(truth, n));
    if (n == 1 && matches == 0) return 0.0;
    const double all = guess.size() >= n ? static_cast<double>(guess.size() - n + 1) : 1.0;
    double precision = static_cast<double>(matches) / all;
    if (matches == 0) {
      halvings *= 2.0;
      precision = 1.0 / (halvings * all);
    }
    sum_of_logs += std::log(precision) / kLongest;
  }
  const double shortness =
      1.0 - static_cast<double>(truth.size()) / static_cast<double>(guess.size());
  return std::exp(std::min(0.0, shortness)) * std::exp(sum_of_logs);
}

}  // namespace moonring::data
