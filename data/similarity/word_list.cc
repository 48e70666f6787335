#include "data/similarity/word_list.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kLetters = "BEMS";

using Fields = std::vector<absl::string_view>;

// Iterates over the lines of a text, each split into fields.
class Lines {
 public:
  Lines(absl::string_view text, absl::string_view where) : left_(text), where_(where) {}

  Fields Next() {
    const size_t end = std::min(left_.find('\n'), left_.size());
    const absl::string_view line = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    ++number_;
    return absl::StrSplit(line, ' ');
  }

  // The next line, which must have `fields` fields; if `word` is given, the first field must equal
  // it.
  absl::StatusOr<Fields> Want(size_t fields, absl::string_view word = "") {
    Fields found = Next();
    if (found.size() == fields && (word.empty() || found[0] == word)) return found;
    return Wrong(absl::StrCat("expected ", word.empty() ? "" : absl::StrCat("'", word, "' and "),
                              word.empty() ? fields : fields - 1, " fields"));
  }

  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ":", number_, ": ", what));
  }

  void SkipComments() {
    while (absl::StartsWith(left_, "#")) Next();
  }

 private:
  absl::string_view left_;
  const absl::string_view where_;
  int64_t number_ = 0;
};

absl::StatusOr<int64_t> Count(const Lines& lines, absl::string_view field) {
  int64_t count = 0;
  if (absl::SimpleAtoi(field, &count) && count >= 0) return count;
  return lines.Wrong(absl::StrCat("expected a number of 0 or more, got '", field, "'"));
}

absl::StatusOr<LogProbabilities> Probabilities(const Lines& lines, const Fields& fields,
                                               size_t first) {
  LogProbabilities found;
  for (int i = 0; i < kPlacesInWord; ++i) {
    const absl::string_view field = fields[first + i];
    found[i] = kImpossible;
    if (field != "-" && !absl::SimpleAtod(field, &found[i]))
      return lines.Wrong(absl::StrCat("expected a log-probability, got '", field, "'"));
  }
  return found;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const WordList>> WordList::Read(const std::string& path) {
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  return Parse(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

absl::StatusOr<std::shared_ptr<const WordList>> WordList::Parse(std::string text,
                                                                absl::string_view where) {
  std::shared_ptr<WordList> list(new WordList(std::move(text)));
  RETURN_IF_ERROR(list->ReadLines(where));
  return list;
}

absl::Status WordList::ReadLines(absl::string_view where) {
  const size_t valid = ValidUtf8Prefix(text_);
  if (valid != text_.size() || text_.size() > UINT32_MAX)
    return absl::InvalidArgumentError(absl::StrCat(where, ": is no UTF-8 from byte ", valid));
  Lines lines(text_, where);
  lines.SkipComments();
  ASSIGN_OR_RETURN(Fields fields, lines.Want(3, "words"));
  ASSIGN_OR_RETURN(const int64_t words, Count(lines, fields[1]));
  ASSIGN_OR_RETURN(total_, Count(lines, fields[2]));
  for (int64_t i = 0; i < words; ++i) {
    ASSIGN_OR_RETURN(fields, lines.Want(2));
    ASSIGN_OR_RETURN(const int64_t frequency, Count(lines, fields[1]));
    if (!words_.empty() && TextOf(words_.back()) >= fields[0])
      return lines.Wrong("expected words sorted by their bytes, each once");
    words_.push_back({static_cast<uint32_t>(fields[0].data() - text_.data()),
                      static_cast<uint32_t>(fields[0].size()), frequency});
  }
  ASSIGN_OR_RETURN(fields, lines.Want(2, "characters"));
  ASSIGN_OR_RETURN(const int64_t characters, Count(lines, fields[1]));
  for (int64_t i = 0; i < characters; ++i) {
    ASSIGN_OR_RETURN(fields, lines.Want(1 + kPlacesInWord));
    size_t at = 0;
    const bool one = !fields[0].empty() && (NextCodePoint(fields[0], at), at == fields[0].size());
    if (!one) return lines.Wrong(absl::StrCat("expected a character, got '", fields[0], "'"));
    at = 0;
    ASSIGN_OR_RETURN(characters_[NextCodePoint(fields[0], at)], Probabilities(lines, fields, 1));
  }
  ASSIGN_OR_RETURN(fields, lines.Want(1 + kPlacesInWord, "start"));
  ASSIGN_OR_RETURN(start_, Probabilities(lines, fields, 1));
  for (int i = 0; i < kPlacesInWord; ++i) {
    ASSIGN_OR_RETURN(fields, lines.Want(2 + kPlacesInWord, "after"));
    if (fields[1] != kLetters.substr(i, 1))
      return lines.Wrong(
          absl::StrCat("expected ", kLetters.substr(i, 1), ", got '", fields[1], "'"));
    ASSIGN_OR_RETURN(after_[i], Probabilities(lines, fields, 2));
  }
  return absl::OkStatus();
}

void WordList::Prefixes(absl::string_view text,
                        absl::FunctionRef<void(size_t bytes, int64_t frequency)> visit) const {
  auto begin = words_.begin(), end = words_.end();
  for (size_t bytes = 0; bytes < text.size();) {
    NextCodePoint(text, bytes);
    const absl::string_view prefix = text.substr(0, bytes);
    begin = std::lower_bound(begin, end, prefix, [&](const Word& word, absl::string_view wanted) {
      return TextOf(word) < wanted;
    });
    end = std::partition_point(
        begin, end, [&](const Word& word) { return absl::StartsWith(TextOf(word), prefix); });
    if (begin == end) return;
    if (begin->size == bytes && begin->frequency > 0) visit(bytes, begin->frequency);
  }
}

int64_t WordList::Frequency(absl::string_view word) const {
  const auto found = std::lower_bound(
      words_.begin(), words_.end(), word,
      [&](const Word& each, absl::string_view wanted) { return TextOf(each) < wanted; });
  return found != words_.end() && TextOf(*found) == word ? found->frequency : 0;
}

const LogProbabilities& WordList::Of(char32_t character) const {
  static constexpr LogProbabilities kUnknown = {kImpossible, kImpossible, kImpossible, kImpossible};
  const auto found = characters_.find(character);
  return found == characters_.end() ? kUnknown : found->second;
}

}  // namespace moonring::data
