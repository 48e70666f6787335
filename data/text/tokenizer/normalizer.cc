#include "data/text/tokenizer/normalizer.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

#include <utf8proc.h>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/text/json/json_fields.h"
#include "data/text/regex/replacement.h"
#include "data/text/tokenizer/characters_map.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {

class Normalizer::Stage {
 public:
  virtual ~Stage() = default;
  virtual bool Keeps(absl::string_view text) const {
    return false;
  }  // whether Rewrite would change nothing, if this is cheap to see
  // Throws std::runtime_error if the result has more than `most` bytes.
  virtual std::string Rewrite(absl::string_view text, size_t most) const = 0;
  virtual double Growth() const { return 1.0; }  // see data/text/regex/replacement.h
};

namespace {

int CombiningClass(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Sorts long runs of combining marks in `text` into canonical order. utf8proc would sort them by
// exchanging neighbours, which takes minutes for a run of a hundred thousand.
std::string WithSortedMarks(absl::string_view text) {
  constexpr size_t kLongRun = 64;
  std::string out;
  std::u32string marks;
  const auto end_run = [&] {
    if (marks.size() > kLongRun) {
      std::stable_sort(marks.begin(), marks.end(), [](char32_t a, char32_t b) {
        return CombiningClass(a) < CombiningClass(b);
      });
    }
    for (const char32_t c : marks) AppendCodePoint(c, out);
    marks.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (CombiningClass(c) > 0) {
      marks += c;
      continue;
    }
    end_run();
    AppendCodePoint(c, out);
  }
  end_run();
  return out;
}

std::string NormalForm(absl::string_view given, utf8proc_option_t form) {
  const std::string text = WithSortedMarks(given);
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out, form);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0)
    throw std::runtime_error(
        absl::StrCat("normalising a text of ", text.size(), " bytes: ", utf8proc_errmsg(size)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  return std::string(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
}

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Calls rewrite(code point, out), which appends the replacement, for each code point.
template <typename RewriteOne>
std::string RewriteEach(absl::string_view text, RewriteOne rewrite) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) rewrite(NextCodePoint(text, at), out);
  return out;
}

// Lowercases each character independently of its neighbours (no final sigma).
void AppendLowercase(char32_t c, std::string& out) {
  // the only character whose lower case has two code points
  constexpr char32_t kCapitalIWithDot = 0x130;
  if (c == kCapitalIWithDot) {
    out.append("i\u0307");
  } else {
    AppendCodePoint(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

class NormalFormStage final : public Normalizer::Stage {
 public:
  // Code points below `first_affected` are already in this form and do not compose with each other.
  NormalFormStage(int form, char32_t first_affected)
      : form_(static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form)),
        first_affected_(first_affected) {}

  bool Keeps(absl::string_view text) const override {
    for (size_t at = 0; at < text.size();) {
      const char32_t c = NextCodePoint(text, at);
      // The Han characters of this range (the most frequent code points above first_affected_) are
      // unchanged in every normalization form.
      if (c >= first_affected_ && !(c >= 0x4E00 && c <= 0x9FFF)) return false;
    }
    return true;
  }

  std::string Rewrite(absl::string_view text, size_t most) const override {
    return NormalForm(text, form_);
  }

 private:
  const utf8proc_option_t form_;
  const char32_t first_affected_;
};

class EachCharacterStage final : public Normalizer::Stage {
 public:
  using RewriteOne = void (*)(char32_t, std::string&);
  explicit EachCharacterStage(RewriteOne rewrite) : rewrite_(rewrite) {}
  std::string Rewrite(absl::string_view text, size_t most) const override {
    return RewriteEach(text, rewrite_);
  }

 private:
  const RewriteOne rewrite_;
};

void AppendButMarks(char32_t c, std::string& out) {
  const auto category = CategoryOf(c);
  if (category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC &&
      category != UTF8PROC_CATEGORY_ME)
    AppendCodePoint(c, out);
}

// Normalization of control characters for neural machine translation (sentencepiece's nmt).
void AppendNmt(char32_t c, std::string& out) {
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (space) return out.push_back(' ');
  if ((c >= 0x01 && c < 0x20) || c == 0x7F || c == 0x8F || c == 0x9F) return;
  AppendCodePoint(c, out);
}

class StripStage final : public Normalizer::Stage {
 public:
  StripStage(bool left, bool right) : left_(left), right_(right) {}
  std::string Rewrite(absl::string_view text, size_t most) const override {
    if (right_) text = text.substr(0, BeginOfTrailingSpace(text));
    if (left_) text.remove_prefix(EndOfLeadingSpace(text));
    return std::string(text);
  }

 private:
  const bool left_, right_;
};

struct BertSwitches {
  bool clean_text, handle_chinese, strip_accents, lowercase;
};

class BertStage final : public Normalizer::Stage {
 public:
  explicit BertStage(BertSwitches switches) : switches_(switches) {}

  std::string Rewrite(absl::string_view text, size_t most) const override {
    std::string out = RewriteEach(text, [&](char32_t c, std::string& cleaned) {
      if (switches_.clean_text) {
        const bool line_or_tab = c == '\t' || c == '\n' || c == '\r';
        if (!line_or_tab && (c == 0xFFFD || IsControl(c))) return;
        if (IsWhiteSpace(c)) c = ' ';
      }
      const bool apart = switches_.handle_chinese && IsChinese(c);
      if (apart) cleaned.push_back(' ');
      AppendCodePoint(c, cleaned);
      if (apart) cleaned.push_back(' ');
    });
    if (switches_.strip_accents) {
      out = RewriteEach(
          NormalForm(out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE)),
          [](char32_t c, std::string& stripped) {
            if (CategoryOf(c) != UTF8PROC_CATEGORY_MN) AppendCodePoint(c, stripped);
          });
    }
    return switches_.lowercase ? RewriteEach(out, AppendLowercase) : out;
  }

 private:
  static bool IsControl(char32_t c) {
    const auto category = CategoryOf(c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
  }
  static bool IsChinese(char32_t c) {  // blocks used by BERT
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }

  const BertSwitches switches_;
};

class PrecompiledStage final : public Normalizer::Stage {
 public:
  PrecompiledStage(CharactersMap map, bool longest_match)
      : map_(std::move(map)), longest_match_(longest_match) {}

  std::string Rewrite(absl::string_view text, size_t most) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      at += longest_match_ ? AppendLongest(text.substr(at), out, most)
                           : AppendGrapheme(text.substr(at), out, most);
    }
    return out;
  }

 private:
  static void Append(absl::string_view piece, std::string& out, size_t most) {
    CheckRewritten(out.size() + piece.size(), most);
    absl::StrAppend(&out, piece);
  }

  // Both functions append the replacement of a prefix of `text`, and return the size of the prefix.
  size_t AppendLongest(absl::string_view text, std::string& out, size_t most) const {
    if (const auto match = map_.Find(text, CharactersMap::Prefer::kLongest)) {
      Append(match->replacement, out, most);
      return match->size;
    }
    size_t size = 0;
    NextCodePoint(text, size);
    absl::StrAppend(&out, text.substr(0, size));
    return size;
  }

  size_t AppendGrapheme(absl::string_view text, std::string& out, size_t most) const {
    constexpr size_t kLookedUpWhole = 5;  // bytes
    const absl::string_view grapheme = text.substr(0, GraphemeSize(text));
    if (grapheme.size() <= kLookedUpWhole) {
      if (const auto match = map_.Find(grapheme, CharactersMap::Prefer::kShortest)) {
        Append(match->replacement, out, most);
        return grapheme.size();
      }
    }
    for (size_t at = 0; at < grapheme.size();) {
      const size_t begin = at;
      NextCodePoint(grapheme, at);
      const absl::string_view character = grapheme.substr(begin, at - begin);
      const auto match = map_.Find(character, CharactersMap::Prefer::kShortest);
      Append(match.has_value() ? match->replacement : character, out, most);
    }
    return grapheme.size();
  }

  static size_t GraphemeSize(absl::string_view text) {
    utf8proc_int32_t state = 0;
    size_t end = 0;
    for (char32_t c = NextCodePoint(text, end); end < text.size();) {
      size_t next = end;
      const char32_t following = NextCodePoint(text, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c),
                                           static_cast<utf8proc_int32_t>(following), &state))
        break;
      c = following;
      end = next;
    }
    return end;
  }

  const CharactersMap map_;
  const bool longest_match_;
};

class PrependStage final : public Normalizer::Stage {
 public:
  explicit PrependStage(std::string prefix) : prefix_(std::move(prefix)) {}
  bool Keeps(absl::string_view text) const override { return text.empty(); }
  std::string Rewrite(absl::string_view text, size_t most) const override {
    return absl::StrCat(prefix_, text);
  }

 private:
  const std::string prefix_;
};

class ReplaceStage final : public Normalizer::Stage {
 public:
  explicit ReplaceStage(Replacement replacement) : replacement_(std::move(replacement)) {}
  double Growth() const override { return replacement_.growth; }
  std::string Rewrite(absl::string_view text, size_t most) const override {
    return replacement_.Apply(text, most);
  }

 private:
  const Replacement replacement_;
};

using MadeStage = absl::StatusOr<std::unique_ptr<const Normalizer::Stage>>;

MadeStage MakeBertStage(const nlohmann::json& description, absl::string_view where) {
  BertSwitches switches;
  ASSIGN_OR_RETURN(switches.clean_text, BoolField(description, "clean_text", true, where));
  ASSIGN_OR_RETURN(switches.handle_chinese,
                   BoolField(description, "handle_chinese_chars", true, where));
  ASSIGN_OR_RETURN(switches.lowercase, BoolField(description, "lowercase", true, where));
  ASSIGN_OR_RETURN(switches.strip_accents,
                   BoolField(description, "strip_accents", switches.lowercase, where));
  return std::make_unique<BertStage>(switches);
}

MadeStage MakePrecompiledStage(const nlohmann::json& description, absl::string_view where) {
  ASSIGN_OR_RETURN(const std::string encoded,
                   StringField(description, "precompiled_charsmap", where));
  ASSIGN_OR_RETURN(const bool longest_match, BoolField(description, "longest_match", false, where));
  std::string bytes;
  if (!absl::Base64Unescape(encoded, &bytes))
    return absl::InvalidArgumentError(absl::StrCat(where, ".precompiled_charsmap: not base64"));
  auto map = CharactersMap::Parse(bytes);
  if (!map.ok())
    return base::WithContext(map.status(), absl::StrCat(where, ".precompiled_charsmap"));
  return std::make_unique<PrecompiledStage>(*std::move(map), longest_match);
}

MadeStage MakeNormalizerStage(const nlohmann::json& description, absl::string_view where) {
  constexpr char32_t kFirstMark = 0x300,
                     kFirstDecomposable =
                         0xA0;  // U+00A0 is compatible with a space, U+00C0 is A and a mark
  ASSIGN_OR_RETURN(const std::string type, StringField(description, "type", where));
  if (type == "NFC") return std::make_unique<NormalFormStage>(UTF8PROC_COMPOSE, kFirstMark);
  if (type == "NFD")
    return std::make_unique<NormalFormStage>(UTF8PROC_DECOMPOSE, kFirstDecomposable);
  if (type == "NFKC")
    return std::make_unique<NormalFormStage>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                             kFirstDecomposable);
  if (type == "NFKD")
    return std::make_unique<NormalFormStage>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
                                             kFirstDecomposable);
  if (type == "Lowercase") return std::make_unique<EachCharacterStage>(AppendLowercase);
  if (type == "StripAccents") return std::make_unique<EachCharacterStage>(AppendButMarks);
  if (type == "Nmt") return std::make_unique<EachCharacterStage>(AppendNmt);
  if (type == "BertNormalizer") return MakeBertStage(description, where);
  if (type == "Precompiled") return MakePrecompiledStage(description, where);
  if (type == "Strip") {
    ASSIGN_OR_RETURN(const bool left, BoolField(description, "strip_left", true, where));
    ASSIGN_OR_RETURN(const bool right, BoolField(description, "strip_right", true, where));
    return std::make_unique<StripStage>(left, right);
  }
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, StringField(description, "prepend", where));
    return std::make_unique<PrependStage>(std::move(prefix));
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(Replacement replacement, Replacement::FromJson(description, where));
    return std::make_unique<ReplaceStage>(std::move(replacement));
  }
  return absl::UnimplementedError(
      absl::StrCat(where, ": normalizer type \"", type, "\" is not supported"));
}

}  // namespace

Normalizer::Normalizer() = default;
Normalizer::~Normalizer() = default;

absl::StatusOr<std::unique_ptr<const Normalizer>> Normalizer::FromJson(
    const nlohmann::json& description, absl::string_view where) {
  auto made = std::unique_ptr<Normalizer>(new Normalizer);
  if (!description.is_null()) RETURN_IF_ERROR(made->Append(description, std::string(where)));
  return made;
}

absl::Status Normalizer::Append(const nlohmann::json& description, const std::string& where) {
  if (stages_.size() >= kMostStages)
    return absl::UnimplementedError(
        absl::StrCat(where, ": more than ", kMostStages, " normalizers are not supported"));
  ASSIGN_OR_RETURN(const std::string type, StringField(description, "type", where));
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* parts, ArrayField(description, "normalizers", where));
    for (size_t i = 0; i < parts->size(); ++i)
      RETURN_IF_ERROR(Append((*parts)[i], absl::StrCat(where, ".normalizers[", i, "]")));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto stage, MakeNormalizerStage(description, where));
  growth_ *= stage->Growth();
  RETURN_IF_ERROR(CheckGrowth(growth_, where));
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::string_view Normalizer::Normalize(absl::string_view text, std::string& storage) const {
  const size_t most = MostRewritten(text.size());
  for (const auto& stage : stages_) {
    if (stage->Keeps(text)) continue;
    storage = stage->Rewrite(
        text, most);  // `text` may point into the old storage, which is replaced after it is read
    CheckRewritten(storage.size(), most);
    text = storage;
  }
  return text;
}

}  // namespace moonring::data
