#include "data/normalizer.h"

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

#include <utf8proc.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"
#include "data/json_fields.h"
#include "data/pattern_field.h"
#include "data/regex.h"
#include "data/utf8.h"

namespace moonring::data {

class Normalizer::Stage {
 public:
  virtual ~Stage() = default;
  virtual bool Keeps(absl::string_view text) const { return false; }  // whether Rewrite would change nothing, where that is seen cheaply
  virtual std::string Rewrite(absl::string_view text) const = 0;
};

namespace {

class NormalFormStage final : public Normalizer::Stage {
 public:
  // Code points below `first_affected` are in this form already, and do not compose with one another.
  NormalFormStage(int form, char32_t first_affected) : form_(static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form)), first_affected_(first_affected) {}

  bool Keeps(absl::string_view text) const override {
    for (size_t at = 0; at < text.size();) {
      const char32_t c = NextCodePoint(text, at);
      // Han and kana without marks, the bulk of what lies above, are in every form.
      if (c >= first_affected_ && !(c >= 0x4E00 && c <= 0x9FFF)) return false;
    }
    return true;
  }

  std::string Rewrite(absl::string_view text) const override {
    utf8proc_uint8_t* out = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &out, form_);
    if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    if (size < 0) throw std::runtime_error(absl::StrCat("normalising a text of ", text.size(), " bytes: ", utf8proc_errmsg(size)));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
    return std::string(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  }

 private:
  const utf8proc_option_t form_;
  const char32_t first_affected_;
};

// Character by character, without regard to neighbours (no final sigma).
class LowercaseStage final : public Normalizer::Stage {
 public:
  std::string Rewrite(absl::string_view text) const override {
    constexpr char32_t kCapitalIWithDot = 0x130;  // the only one whose lower case is two code points
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const char32_t c = NextCodePoint(text, at);
      if (c == kCapitalIWithDot) {
        out.append("i\u0307");
      } else {
        AppendCodePoint(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
      }
    }
    return out;
  }
};

class PrependStage final : public Normalizer::Stage {
 public:
  explicit PrependStage(std::string prefix) : prefix_(std::move(prefix)) {}
  bool Keeps(absl::string_view text) const override { return text.empty(); }
  std::string Rewrite(absl::string_view text) const override { return absl::StrCat(prefix_, text); }

 private:
  const std::string prefix_;
};

class ReplaceStage final : public Normalizer::Stage {
 public:
  ReplaceStage(std::shared_ptr<const Regex> pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::string Rewrite(absl::string_view text) const override {
    std::string out;
    pattern_->Split(text, [&](absl::string_view part, bool match) { absl::StrAppend(&out, match ? absl::string_view(content_) : part); });
    return out;
  }

 private:
  const std::shared_ptr<const Regex> pattern_;
  const std::string content_;
};

absl::StatusOr<std::unique_ptr<const Normalizer::Stage>> MakeStage(const nlohmann::json& description, absl::string_view where) {
  constexpr char32_t kFirstMark = 0x300, kFirstDecomposable = 0xA0;  // U+00A0 is compatible with a space, U+00C0 is A and a mark
  ASSIGN_OR_RETURN(const std::string type, StringField(description, "type", where));
  if (type == "NFC") return std::make_unique<NormalFormStage>(UTF8PROC_COMPOSE, kFirstMark);
  if (type == "NFD") return std::make_unique<NormalFormStage>(UTF8PROC_DECOMPOSE, kFirstDecomposable);
  if (type == "NFKC") return std::make_unique<NormalFormStage>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT, kFirstDecomposable);
  if (type == "NFKD") return std::make_unique<NormalFormStage>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, kFirstDecomposable);
  if (type == "Lowercase") return std::make_unique<LowercaseStage>();
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, StringField(description, "prepend", where));
    return std::make_unique<PrependStage>(std::move(prefix));
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(auto pattern, PatternField(description, "pattern", where));
    ASSIGN_OR_RETURN(std::string content, StringField(description, "content", where));
    return std::make_unique<ReplaceStage>(std::move(pattern), std::move(content));
  }
  return absl::UnimplementedError(absl::StrCat(where, ": normalizer type \"", type, "\" is not supported"));
}

}  // namespace

Normalizer::Normalizer() = default;
Normalizer::~Normalizer() = default;

absl::StatusOr<std::unique_ptr<const Normalizer>> Normalizer::FromJson(const nlohmann::json& description, absl::string_view where) {
  auto made = std::unique_ptr<Normalizer>(new Normalizer);
  if (!description.is_null()) RETURN_IF_ERROR(made->Append(description, std::string(where)));
  return made;
}

absl::Status Normalizer::Append(const nlohmann::json& description, const std::string& where) {
  ASSIGN_OR_RETURN(const std::string type, StringField(description, "type", where));
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const nlohmann::json* parts, ArrayField(description, "normalizers", where));
    for (size_t i = 0; i < parts->size(); ++i) RETURN_IF_ERROR(Append((*parts)[i], absl::StrCat(where, ".normalizers[", i, "]")));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto stage, MakeStage(description, where));
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::string_view Normalizer::Normalize(absl::string_view text, std::string& storage) const {
  for (const auto& stage : stages_) {
    if (stage->Keeps(text)) continue;
    storage = stage->Rewrite(text);  // `text` may be the old storage: it is read before it is replaced
    text = storage;
  }
  return text;
}

}  // namespace moonring::data
