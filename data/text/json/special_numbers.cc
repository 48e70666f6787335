#include "data/text/json/special_numbers.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/text/ordered_json.h"

namespace moonring::data {
namespace {

using base::OrderedJson;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Special numbers, each with a placeholder of the same length, so that positions in the text do not
// change.
struct Word {
  absl::string_view word, place_holder;
  double value;
};
constexpr Word kWords[] = {{"NaN", "0.0", std::numeric_limits<double>::quiet_NaN()},
                           {"Infinity", "0.000000", kInfinity},
                           {"-Infinity", "-0.000000", -kInfinity}};

// The text with placeholders for the special numbers. `numbers`: their indices among all numbers of
// the text (from 0) and their values.
struct Replaced {
  std::string text;
  std::vector<std::pair<size_t, double>> numbers;
};

// Whether the character can continue a number or word.
bool GoesOn(char c) { return absl::ascii_isalnum(c) || absl::StrContains("+-._", c); }

// The special number at `at`, as a whole word; null if there is none.
const Word* FindWord(absl::string_view text, size_t at) {
  if (at > 0 && GoesOn(text[at - 1])) return nullptr;
  for (const Word& word : kWords) {
    const size_t end = at + word.word.size();
    if (absl::StartsWith(text.substr(at), word.word) && (end == text.size() || !GoesOn(text[end])))
      return &word;
  }
  return nullptr;
}

Replaced Replace(absl::string_view text) {
  Replaced replaced{.text = std::string(text)};
  size_t number = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (const Word* word = FindWord(text, i); word != nullptr) {
      replaced.text.replace(i, word->word.size(), word->place_holder.data(),
                            word->place_holder.size());
      replaced.numbers.emplace_back(number++, word->value);
      i += word->word.size() - 1;
    } else if (absl::ascii_isdigit(c) || c == '-') {
      ++number;
      while (i + 1 < text.size() &&
             (absl::ascii_isdigit(text[i + 1]) || absl::StrContains("+-.eE", text[i + 1])))
        ++i;
    }
  }
  return replaced;
}

// Builds the value and inserts the special numbers.
class Builder final : public nlohmann::json_sax<OrderedJson> {
 public:
  explicit Builder(const Replaced& replaced) : replaced_(replaced) {}

  OrderedJson Take() && { return std::move(root_); }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(int64_t value) override { return AddNumber(value); }
  bool number_unsigned(uint64_t value) override { return AddNumber(value); }
  bool number_float(double value, const std::string&) override { return AddNumber(value); }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(OrderedJson::binary_t&) override { return false; }  // does not occur in JSON text
  bool start_object(size_t) override { return Open(OrderedJson::object()); }
  bool start_array(size_t) override { return Open(OrderedJson::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    member_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  OrderedJson* Add(OrderedJson value) {
    OrderedJson* place = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      place = &open_.back()->back();
    } else if (!open_.empty()) {
      place = member_;
    }
    *place = std::move(value);
    return place;
  }
  bool AddNumber(OrderedJson value) {
    if (next_ < replaced_.numbers.size() && replaced_.numbers[next_].first == number_)
      value = replaced_.numbers[next_++].second;
    ++number_;
    return Add(std::move(value)) != nullptr;
  }
  bool Open(OrderedJson value) {
    open_.push_back(Add(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  const Replaced& replaced_;
  OrderedJson root_;
  std::vector<OrderedJson*> open_;  // the open arrays and objects
  OrderedJson* member_ = nullptr;   // target of the next value, in an object
  size_t number_ = 0, next_ = 0;    // numbers read; index of the next special number
};

}  // namespace

OrderedJson ParseWithSpecialNumbers(absl::string_view text) {
  if (!absl::StrContains(text, "NaN") && !absl::StrContains(text, "Infinity"))
    return OrderedJson::parse(text.begin(), text.end());
  const Replaced replaced = Replace(text);
  if (replaced.numbers.empty()) return OrderedJson::parse(text.begin(), text.end());
  Builder builder(replaced);
  if (!OrderedJson::sax_parse(replaced.text, &builder)) return OrderedJson::parse(replaced.text);
  return std::move(builder).Take();
}

}  // namespace moonring::data
