#include "data/similarity/word_segmenter.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

bool IsHan(char32_t c) { return c >= 0x4E00 && c <= 0x9FD5; }
bool IsDigit(char32_t c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char32_t c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsOfBlock(char32_t c) {
  return IsHan(c) || IsLetterOrDigit(c) ||
         (c < 0x80 &&
          absl::string_view("+#&._%-").find(static_cast<char>(c)) != absl::string_view::npos);
}

// Segments one text. Indices are those of its code points.
class Cutting {
 public:
  Cutting(const WordList& list, absl::string_view text) : list_(list), text_(text) {
    for (size_t at = 0; at < text.size();) {
      begins_.push_back(at);
      characters_.push_back(NextCodePoint(text, at));
    }
    begins_.push_back(text.size());
  }

  std::vector<std::string> Run() && {
    const size_t size = characters_.size();
    for (size_t begin = 0, end = 0; begin < size; begin = end) {
      if (IsOfBlock(characters_[begin])) {
        while (end < size && IsOfBlock(characters_[end])) ++end;
        CutBlock(begin, end);
      } else {
        end = begin + 1;
        if (characters_[begin] == '\r' && end < size && characters_[end] == '\n') ++end;
        Give(begin, end);
      }
    }
    return std::move(words_);
  }

 private:
  absl::string_view Text(size_t begin, size_t end) const {
    return text_.substr(begins_[begin], begins_[end] - begins_[begin]);
  }
  void Give(size_t begin, size_t end) { words_.emplace_back(Text(begin, end)); }
  void GiveEach(size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) Give(at, at + 1);
  }

  // Returns for each index in [begin, end) the end of the word that begins at this index on the
  // most probable path.
  std::vector<size_t> LikeliestEnds(size_t begin, size_t end) const {
    const double log_total = std::log(static_cast<double>(list_.total()));
    std::vector<double> best(end - begin + 1, 0.0);
    std::vector<size_t> ends(end - begin);
    for (size_t at = end; at-- > begin;) {
      double likeliest = -std::numeric_limits<double>::infinity();
      const auto take = [&](size_t word_end, int64_t frequency) {
        const double sum =
            std::log(static_cast<double>(frequency)) - log_total + best[word_end - begin];
        // words are visited in order of length, so of equal sums the longer word is chosen
        if (sum < likeliest) return;
        likeliest = sum;
        ends[at - begin] = word_end;
      };
      size_t word_end = at;
      bool any = false;
      list_.Prefixes(Text(at, end), [&](size_t bytes, int64_t frequency) {
        while (begins_[word_end] < begins_[at] + bytes) ++word_end;
        take(word_end, frequency);
        any = true;
      });
      if (!any) take(at + 1, 1);
      best[at - begin] = likeliest;
    }
    return ends;
  }

  void CutBlock(size_t begin, size_t end) {
    const std::vector<size_t> ends = LikeliestEnds(begin, end);
    size_t singles = begin;  // start of the pending single characters
    for (size_t at = begin; at < end;) {
      const size_t next = ends[at - begin];
      if (next - at > 1) {
        CutSingles(singles, at);
        Give(at, next);
        singles = next;
      }
      at = next;
    }
    CutSingles(singles, end);
  }

  // Segments consecutive characters that the path left as single-character words.
  void CutSingles(size_t begin, size_t end) {
    if (end - begin <= 1 || list_.Frequency(Text(begin, end)) > 0) return GiveEach(begin, end);
    for (size_t at = begin, next = begin; at < end; at = next) {
      const bool han = IsHan(characters_[at]);
      while (next < end && IsHan(characters_[next]) == han) ++next;
      if (han) {
        CutByPlaces(at, next);
      } else {
        CutLetters(at, next);
      }
    }
  }

  // Emits runs of letters and digits (with decimal parts and % signs), and the text between them.
  void CutLetters(size_t begin, size_t end) {
    size_t between = begin;
    for (size_t at = begin; at < end;) {
      if (!IsLetterOrDigit(characters_[at])) {
        ++at;
        continue;
      }
      if (between < at) Give(between, at);
      size_t next = at;
      while (next < end && IsLetterOrDigit(characters_[next])) ++next;
      if (next + 1 < end && characters_[next] == '.' && IsDigit(characters_[next + 1])) {
        ++next;
        while (next < end && IsDigit(characters_[next])) ++next;
      }
      if (next < end && characters_[next] == '%') ++next;
      Give(at, next);
      at = between = next;
    }
    if (between < end) Give(between, end);
  }

  // Segments by the most probable sequence of positions in words (Viterbi): B (begin), E (end), M
  // (middle), S (single). Ties go to the alphabetically last letter, as in jieba.
  void CutByPlaces(size_t begin, size_t end) {
    static constexpr int kBefore[kPlacesInWord][2] = {
        {1, 3}, {0, 2}, {0, 2}, {1, 3}};  // the two possible predecessors of B, E, M, S
    std::vector<std::array<int, kPlacesInWord>> came_from(end - begin);
    LogProbabilities now;
    for (int place = 0; place < kPlacesInWord; ++place)
      now[place] = list_.start()[place] + list_.Of(characters_[begin])[place];
    for (size_t at = begin + 1; at < end; ++at) {
      const LogProbabilities before = now, &of = list_.Of(characters_[at]);
      for (int place = 0; place < kPlacesInWord; ++place) {
        const auto by = [&](int from) {
          return before[from] + list_.after(from)[place] + of[place];
        };
        const auto [low, high] = kBefore[place];
        const int from = by(low) > by(high) ? low : high;
        now[place] = by(from);
        came_from[at - begin][place] = from;
      }
    }
    constexpr int kEnd = static_cast<int>(PlaceInWord::kEnd),
                  kSingle = static_cast<int>(PlaceInWord::kSingle);
    std::vector<bool> ends(end - begin);
    int place = now[kEnd] > now[kSingle] ? kEnd : kSingle;
    for (size_t at = end; at-- > begin;) {
      ends[at - begin] = place == kEnd || place == kSingle;
      if (at > begin) place = came_from[at - begin][place];
    }
    for (size_t at = begin, word = begin; at < end; ++at) {
      if (!ends[at - begin]) continue;
      Give(word, at + 1);
      word = at + 1;
    }
  }

  const WordList& list_;
  const absl::string_view text_;
  std::vector<size_t> begins_;  // offset of each code point in text_, and the size of text_
  std::u32string characters_;
  std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> WordSegmenter::Cut(absl::string_view text) const {
  if (ValidUtf8Prefix(text) == text.size()) return Cutting(*words_, text).Run();
  const std::string whole = ReplaceMalformedUtf8(text);
  return Cutting(*words_, whole).Run();
}

}  // namespace moonring::data
