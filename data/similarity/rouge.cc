#include "data/similarity/rouge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

// Python's white space: Unicode's, plus four ASCII separators.
bool IsSpace(char32_t c) { return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F); }

// A set of characters: those in `characters`, or with inside = false all other characters.
struct CharacterClass {
  std::u32string_view characters;
  bool inside = true;

  bool Has(char32_t c) const { return (characters.find(c) != std::u32string_view::npos) == inside; }
};
using Pattern = std::vector<CharacterClass>;

// Inserts a line end before the last character of each match of the pattern. Matches are found from
// left to right and do not overlap.
std::u32string BreakLines(const std::u32string& text, const Pattern& pattern) {
  std::u32string broken;
  for (size_t at = 0; at < text.size();) {
    const bool matches =
        at + pattern.size() <= text.size() &&
        std::equal(pattern.begin(), pattern.end(), text.begin() + at,
                   [](const CharacterClass& each, char32_t c) { return each.Has(c); });
    if (!matches) {
      broken.push_back(text[at++]);
      continue;
    }
    broken.append(text, at, pattern.size() - 1);
    broken.push_back('\n');
    at += pattern.size();
    broken.push_back(text[at - 1]);
  }
  return broken;
}

std::vector<Pattern> SentenceEnds() {
  // end marks: ideographic full stop, full-width ! and ?, and ?
  constexpr std::u32string_view kMarks = U"\u3002\uFF01\uFF1F?";
  constexpr std::u32string_view kQuotes = U"\u201D\u2019";
  const CharacterClass no_quote = {kQuotes, false};
  Pattern dots(6, CharacterClass{U"."}), ellipsis(2, CharacterClass{U"\u2026"});
  dots.push_back(no_quote);
  ellipsis.push_back(no_quote);
  return {{{kMarks}, no_quote},
          dots,
          ellipsis,
          {{kMarks}, {kQuotes}, {U"\uFF0C\u3002\uFF01\uFF1F?", false}}};
}

// Appends the words of a sentence, split at white space; a sentence without words is one empty
// word.
void AddWords(std::u32string_view sentence, std::vector<std::u32string>& words) {
  const size_t before = words.size();
  for (size_t at = 0; at < sentence.size();) {
    size_t end = at;
    while (end < sentence.size() && !IsSpace(sentence[end])) ++end;
    if (end > at) words.emplace_back(sentence.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  if (words.size() == before) words.emplace_back();
}

std::vector<std::u32string> SentenceWords(const std::vector<std::string>& given) {
  const std::string joined = absl::StrJoin(given, " ");
  std::u32string text;
  for (size_t at = 0; at < joined.size();) text.push_back(NextCodePoint(joined, at));
  if (absl::c_all_of(text, IsSpace)) return {};
  for (const Pattern& pattern : SentenceEnds()) text = BreakLines(text, pattern);
  while (IsSpace(text.back())) text.pop_back();
  std::vector<std::u32string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) AddWords(std::u32string_view(text).substr(begin, end - begin), words);
    begin = end + 1;
  }
  return words;
}

// Words as numbers; equal words have equal numbers.
using Numbers = std::vector<uint32_t>;

Numbers NumbersOf(const std::vector<std::u32string>& words,
                  std::unordered_map<std::u32string, uint32_t>& known) {
  Numbers numbers;
  for (const std::u32string& word : words)
    numbers.push_back(known.try_emplace(word, static_cast<uint32_t>(known.size())).first->second);
  return numbers;
}

// The distinct 1-grams or 2-grams, sorted.
std::vector<uint64_t> WordNgrams(const Numbers& words, size_t n) {
  std::vector<uint64_t> found;
  for (size_t at = 0; at + n <= words.size(); ++at)
    found.push_back(n == 1 ? words[at] : uint64_t{words[at]} << 32 | words[at + 1]);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

double F(size_t common, size_t of_prediction, size_t of_label) {
  const auto share = [&](size_t all) {
    return all == 0 ? 0.0 : static_cast<double>(common) / static_cast<double>(all);
  };
  const double p = share(of_prediction), r = share(of_label);
  return 2.0 * ((p * r) / (p + r + 1e-8));
}

double RougeN(const Numbers& prediction, const Numbers& label, size_t n) {
  const std::vector<uint64_t> guess = WordNgrams(prediction, n), truth = WordNgrams(label, n);
  std::vector<uint64_t> common;
  std::set_intersection(guess.begin(), guess.end(), truth.begin(), truth.end(),
                        std::back_inserter(common));
  return F(common.size(), guess.size(), truth.size());
}

size_t LongestCommonSubsequence(const Numbers& a, const Numbers& b) {
  // row[i]: LCS of the words of `a` so far and the first i words of `b`
  std::vector<size_t> row(b.size() + 1, 0);
  for (const uint32_t word : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

RougeScores Rouge(const std::vector<std::string>& prediction,
                  const std::vector<std::string>& label) {
  std::unordered_map<std::u32string, uint32_t> known;
  const Numbers guess = NumbersOf(SentenceWords(prediction), known),
                truth = NumbersOf(SentenceWords(label), known);
  if (guess.empty() || truth.empty()) return {};
  return {.rouge_1 = RougeN(guess, truth, 1),
          .rouge_2 = RougeN(guess, truth, 2),
          .rouge_l = F(LongestCommonSubsequence(guess, truth), guess.size(), truth.size())};
}

}  // namespace moonring::data
