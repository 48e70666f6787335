#ifndef MOONRING_BASE_TEXT_FIELDS_H_
#define MOONRING_BASE_TEXT_FIELDS_H_

// The named fields of an options struct, listed once, beside its members. What reads the options by
// name, documents them and states their defaults walks the list:
//
//   struct LionOptions {
//     double beta1 = 0.9;
//     double beta2 = 0.99;
//
//     static constexpr std::tuple kFields = {
//         base::Field{"beta1", &LionOptions::beta1},
//         base::Field{"beta2", &LionOptions::beta2, base::Range::kFraction, "decay rate of .."},
//     };
//   };
//
// A field's default is the value of its member in a new struct. A member that is a struct with
// fields itself contributes these, under their own names. The words for an enum are beside it:
//
//   enum class MuonForm { kTorch, kLlamaFactory };
//   constexpr auto WordsOf(MuonForm) {
//     return std::to_array<base::Word<MuonForm>>(
//         {{"torch", MuonForm::kTorch}, {"llamafactory", MuonForm::kLlamaFactory}});
//   }

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace moonring::base {

// The values that a number may have.
enum class Range { kAny, kFraction /* 0 or more and less than 1 */, kPositive, kNotNegative };

inline constexpr bool kRequired = true;

template <typename Owner, typename T>
struct Field {
  // `meaning` does not state the default, which is appended where it is shown.
  constexpr Field(const char* name, T Owner::*member, Range range, const char* meaning = "",
                  bool required = false)
      : name(name), member(member), range(range), meaning(meaning), required(required) {}
  constexpr Field(const char* name, T Owner::*member, const char* meaning = "",
                  bool required = false)
      : Field(name, member, Range::kAny, meaning, required) {}

  const char* name;
  T Owner::*member;
  Range range;
  const char* meaning;
  bool required;
};

template <typename Enum>
struct Word {
  const char* word;
  Enum value;
};

// Calls visit(field, member's value) for each field, in the order of the list.
template <typename Owner, typename Visit>
void ForEachField(Owner& owner, const Visit& visit) {
  const auto visit_one = [&](const auto& field) {
    auto& value = owner.*field.member;
    if constexpr (requires { std::remove_cvref_t<decltype(value)>::kFields; }) {
      ForEachField(value, visit);
    } else {
      visit(field, value);
    }
  };
  std::apply([&](const auto&... fields) { (visit_one(fields), ...); },
             std::remove_const_t<Owner>::kFields);
}

// The value that a word names; nothing for an unknown word.
template <typename Enum>
std::optional<Enum> ValueOfWord(std::string_view word) {
  for (const Word<Enum>& each : WordsOf(Enum{}))
    if (word == each.word) return each.value;
  return std::nullopt;
}

template <typename Enum>
const char* WordOfValue(Enum value) {
  for (const Word<Enum>& each : WordsOf(value))
    if (value == each.value) return each.word;
  return "";
}

// The words of an enum, as messages list them: "left, right or full".
template <typename Enum>
std::string ListOfWords() {
  constexpr auto words = WordsOf(Enum{});
  std::string list = words[0].word;
  for (size_t i = 1; i < words.size(); ++i)
    list += (i + 1 < words.size() ? ", " : " or ") + std::string(words[i].word);
  return list;
}

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_FIELDS_H_
