#include "data/text/jinja/value_text.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/text/jinja/operators.h"
#include "data/text/json/python_json.h"
#include "data/text/unicode/utf8.h"

#include <utf8proc.h>

namespace moonring::data::jinja {
namespace {

bool IsPrintable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

// The maximum number of bytes that one byte of text becomes: \x1b in a Python literal, \u001b in
// JSON.
constexpr int64_t kMostQuoted = 4, kMostEscaped = 6;

class Writer {
 public:
  explicit Writer(Budget& budget) : budget_(budget) {}

  void Add(absl::string_view piece) {
    budget_.Make(static_cast<int64_t>(piece.size()));
    absl::StrAppend(&text_, piece);
  }
  std::string Take() { return std::move(text_); }

 protected:
  Budget& budget_;

 private:
  std::string text_;
};

class Repr : public Writer {
 public:
  using Writer::Writer;

  void Write(const Value& value) {
    budget_.Step();
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        return Add("Undefined");
      case Value::Kind::kNone:
        return Add("None");
      case Value::Kind::kBool:
        return Add(value.integer() != 0 ? "True" : "False");
      case Value::Kind::kInt:
        return Add(absl::StrCat(value.integer()));
      case Value::Kind::kFloat:
        return Add(FloatText(value.number()));
      case Value::Kind::kText:
        budget_.Make(static_cast<int64_t>(value.text().size()), kMostQuoted);
        budget_.Scan(static_cast<int64_t>(value.text().size()));
        return Add(value.is_markup() ? absl::StrCat("Markup(", Quoted(value.text()), ")")
                                     : Quoted(value.text()));
      case Value::Kind::kSequence:
        return WriteSequence(value);
      case Value::Kind::kDict:
        return WriteDict(value.dict());
      case Value::Kind::kObject:
        return Add(value.object().Text());
    }
  }

 private:
  void WriteItems(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Add(", ");
      Write(items[i]);
    }
  }

  void WriteSequence(const Value& value) {
    const Sequence& sequence = value.sequence();
    switch (sequence.kind) {
      case Sequence::Kind::kIterator:
        return Add("<generator object>");
      case Sequence::Kind::kRange:
        return Add(RangeText(sequence.items));
      case Sequence::Kind::kTuple:
        Add("(");
        WriteItems(sequence.items);
        return Add(sequence.items.size() == 1 ? ",)" : ")");
      case Sequence::Kind::kList:
        Add("[");
        WriteItems(sequence.items);
        return Add("]");
      default:
        Add(absl::StrCat(value.TypeName(), "(["));
        WriteItems(sequence.items);
        return Add("])");
    }
  }

  static std::string RangeText(const std::vector<Value>& items) {
    if (items.empty()) return "range(0, 0)";
    const int64_t first = items.front().integer(),
                  step = items.size() > 1 ? items[1].integer() - first : 1;
    return absl::StrCat("range(", first, ", ", items.back().integer() + step,
                        step == 1 ? std::string() : absl::StrCat(", ", step), ")");
  }

  void WriteDict(const Dict& dict) {
    Add("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) Add(", ");
      first = false;
      Write(key);
      Add(": ");
      Write(value);
    }
    Add("}");
  }
};

class Json : public Writer {
 public:
  Json(Budget& budget, const JsonStyle& style)
      : Writer(budget),
        style_(style),
        item_separator_(style.item_separator.value_or(style.indent.has_value() ? "," : ", ")),
        separator_(style.separator.value_or(": ")) {}

  void Write(const Value& value, int depth) {
    budget_.Step();
    switch (value.kind()) {
      case Value::Kind::kNone:
        return Add("null");
      case Value::Kind::kBool:
        return Add(value.integer() != 0 ? "true" : "false");
      case Value::Kind::kInt:
        return Add(absl::StrCat(value.integer()));
      case Value::Kind::kFloat:
        return Add(Number(value.number()));
      case Value::Kind::kText:
        return AddText(value.text());
      case Value::Kind::kDict:
        return WriteDict(value.dict(), depth);
      default:
        if (value.is(Sequence::Kind::kList) || value.is(Sequence::Kind::kTuple))
          return WriteList(value.sequence().items, depth);
        Fail("Object of type ", value.TypeName(), " is not JSON serializable");
    }
  }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    return std::isinf(value) ? (value > 0 ? "Infinity" : "-Infinity") : FloatText(value);
  }

  void AddText(const std::string& text) {
    budget_.Make(static_cast<int64_t>(text.size()), kMostEscaped);
    budget_.Scan(static_cast<int64_t>(text.size()));
    Add(OrderedJson(text).dump(-1, ' ', style_.ensure_ascii));
  }

  void NewLine(int depth) {
    if (!style_.indent.has_value()) return;
    Add("\n");
    for (int i = 0; i < depth; ++i) Add(*style_.indent);
  }

  void WriteList(const std::vector<Value>& items, int depth) {
    if (items.empty()) return Add("[]");
    Add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Add(item_separator_);
      NewLine(depth + 1);
      Write(items[i], depth + 1);
    }
    NewLine(depth);
    Add("]");
  }

  // json.dumps accepts keys that are strings, numbers, booleans and None, and converts them to
  // strings.
  std::string KeyText(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is(Value::Kind::kBool)) return key.integer() != 0 ? "true" : "false";
    if (key.is(Value::Kind::kFloat)) return Number(key.number());
    if (!key.is_integer()) Fail("keys must be str, int, float, bool or None, not ", key.TypeName());
    return absl::StrCat(key.integer());
  }

  void WriteDict(const Dict& dict, int depth) {
    if (dict.entries().empty()) return Add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* a, const auto* b) {
        return Less(budget_, a->first, b->first);
      });
    }
    Add("{");
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) Add(item_separator_);
      first = false;
      NewLine(depth + 1);
      AddText(KeyText(entry->first));
      Add(separator_);
      Write(entry->second, depth + 1);
    }
    NewLine(depth);
    Add("}");
  }

  const JsonStyle& style_;
  const std::string item_separator_, separator_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return PythonText(OrderedJson(value));
}

std::string Quoted(absl::string_view text) {
  const char quote = absl::StrContains(text, '\'') && !absl::StrContains(text, '"') ? '"' : '\'';
  std::string quoted(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      quoted += '\\';
      quoted += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      quoted += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (IsPrintable(c)) {
      AppendCodePoint(c, quoted);
    } else if (c < 0x100) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<uint32_t>(c));
    } else {
      absl::StrAppendFormat(&quoted, "\\U%08x", static_cast<uint32_t>(c));
    }
  }
  return quoted + quote;
}

std::string TextOf(Budget& budget, const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return "";
  return ReprOf(budget, value);
}

std::string ReprOf(Budget& budget, const Value& value) {
  Repr repr(budget);
  repr.Write(value);
  return repr.Take();
}

std::string JsonOf(Budget& budget, const Value& value, const JsonStyle& style) {
  Json json(budget, style);
  json.Write(value, 0);
  return json.Take();
}

}  // namespace moonring::data::jinja
