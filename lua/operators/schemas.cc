#include "lua/operators/schemas.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/nearest_name.h"

namespace moonring::lua {
namespace {

constexpr absl::string_view kNamespace = "aten::";
constexpr absl::string_view kReserved[] = {"and",   "break", "do",       "else", "elseif", "end",
                                           "false", "for",   "function", "goto", "if",     "in",
                                           "local", "nil",   "not",      "or",   "repeat", "return",
                                           "then",  "true",  "until",    "while"};

// A name that is a reserved word in Lua gets a trailing underscore, so that ops.NAME is valid
// syntax.
std::string NameInLua(absl::string_view name) {
  const bool reserved =
      std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
  return absl::StrCat(name, reserved ? "_" : "");
}

// Whether an argument of type string may be the name of a dim.
bool IsNamedDim(const c10::Argument& argument) {
  static constexpr absl::string_view kNames[] = {"dim",  "dims",      "names",   "order",  "dim0",
                                                 "dim1", "start_dim", "end_dim", "out_dim"};
  return std::find(std::begin(kNames), std::end(kNames), argument.name()) != std::end(kNames);
}

std::optional<ArgumentKind> KindOf(const c10::Argument& argument, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgumentKind::kInt;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return ArgumentKind::kFloat;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return ArgumentKind::kBool;
    case c10::TypeKind::NumberType:
      return ArgumentKind::kScalar;
    case c10::TypeKind::ScalarTypeType:
      return ArgumentKind::kDtype;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    case c10::TypeKind::LayoutType:
      return ArgumentKind::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return ArgumentKind::kMemoryFormat;
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::kGenerator;
    case c10::TypeKind::StringType:
      if (IsNamedDim(argument)) return std::nullopt;
      return ArgumentKind::kString;
    default:
      return std::nullopt;
  }
}

// Returns how an argument is read from Lua; nullopt if Lua cannot represent its type, which is then
// stored in `lacking`.
std::optional<ArgumentRule> RuleOf(const c10::Argument& argument, std::string& lacking) {
  ArgumentRule rule;
  rule.name = argument.name();
  rule.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  rule.keyword_only = argument.kwarg_only();
  rule.has_default = argument.default_value().has_value();
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    rule.optional = true;
    type = optional->getElementType();
  }
  if (const auto list = type->cast<c10::ListType>()) {
    rule.is_list = true;
    rule.fixed_size = argument.N().value_or(0);
    type = list->getElementType();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      rule.optional_elements = true;
      type = optional->getElementType();
    }
  }
  const std::optional<ArgumentKind> kind = KindOf(argument, *type);
  if (!kind.has_value()) {
    lacking = type->kind() == c10::TypeKind::StringType ? "named dims" : type->repr_str();
    return std::nullopt;
  }
  rule.kind = *kind;
  return rule;
}

bool IsLackingResult(const c10::FunctionSchema& schema, std::string& lacking) {
  for (const c10::Argument& result : schema.returns()) {
    const c10::TypeKind kind = result.real_type()->kind();
    if (kind == c10::TypeKind::DictType || kind == c10::TypeKind::QSchemeType)
      return (lacking = result.real_type()->repr_str(), true);
  }
  return false;
}

// Returns what an operator divides. `name`: as in the dispatcher, "aten::div_".
Division DivisionOf(absl::string_view name) {
  absl::ConsumePrefix(&name, "aten::");
  absl::ConsumeSuffix(&name, "_");
  if (name == "div" || name == "divide") return Division::kByMode;
  return name == "floor_divide" ? Division::kWhole : Division::kNone;
}

std::optional<Overload> ReadOverload(const c10::OperatorHandle& handle, std::string& lacking) {
  Overload overload{.handle = handle};
  overload.divides = DivisionOf(handle.operator_name().name);
  const c10::FunctionSchema& schema = handle.schema();
  for (const c10::Argument& argument : schema.arguments()) {
    std::optional<ArgumentRule> rule = RuleOf(argument, lacking);
    if (!rule.has_value()) return std::nullopt;
    const int place = static_cast<int>(overload.arguments.size());
    if (!rule->keyword_only) overload.positional = place + 1;
    if (rule->keyword_only && rule->written) ++overload.outs;
    if (rule->name == "self") overload.self = place;
    overload.arguments.push_back(*std::move(rule));
  }
  if (IsLackingResult(schema, lacking)) return std::nullopt;
  const bool has_self = overload.positional > 0 &&
                        overload.arguments[0].kind == ArgumentKind::kTensor &&
                        !overload.arguments[0].is_list;
  if (overload.positional == 1 + has_self) {
    const ArgumentRule& last = overload.arguments[overload.positional - 1];
    overload.takes_sizes = last.is_list && last.kind == ArgumentKind::kInt;
  }
  return overload;
}

}  // namespace

Operators::Operators(std::vector<absl::string_view> allowed) : confined_(!allowed.empty()) {
  const std::set<absl::string_view> wanted(allowed.begin(), allowed.end());
  for (const c10::OperatorName& each : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!absl::StartsWith(each.name, kNamespace)) continue;
    std::string name = NameInLua(absl::string_view(each.name).substr(kNamespace.size()));
    if (!wanted.empty() && wanted.count(name) == 0) continue;
    names_[std::move(name)].push_back(each);
  }
}

std::unique_ptr<Operator> Operators::Read(const std::string& name, Count* count) const {
  auto made = std::make_unique<Operator>(Operator{.name = name});
  for (const c10::OperatorName& each : names_.find(name)->second) {
    const auto handle = c10::Dispatcher::singleton().findSchema(each);
    if (!handle.has_value()) continue;  // registered for a backend, but never defined
    std::string lacking;
    if (std::optional<Overload> overload = ReadOverload(*handle, lacking)) {
      if (!confined_ || overload->outs == 0) made->overloads.push_back(*std::move(overload));
    } else if (count != nullptr) {
      ++count->left_out[lacking];
    }
  }
  std::sort(
      made->overloads.begin(), made->overloads.end(), [](const Overload& a, const Overload& b) {
        const auto key = [](const Overload& one) {
          return std::make_tuple(one.outs, one.arguments.size(), one.schema().overload_name());
        };
        return key(a) < key(b);
      });
  return made;
}

const Operator* Operators::Find(absl::string_view name) {
  const auto read = read_.find(name);
  if (read != read_.end()) return read->second.get();
  if (names_.find(name) == names_.end()) return nullptr;
  std::unique_ptr<Operator> made = Read(std::string(name), nullptr);
  if (made->overloads.empty()) return nullptr;
  return read_.emplace(name, std::move(made)).first->second.get();
}

std::vector<std::string> Operators::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, overloads] : names_) names.push_back(name);
  return names;
}

std::string Operators::DidYouMean(absl::string_view name) const {
  return base::DidYouMean(std::string(name), Names());
}

Operators::Count Operators::CountAll() {
  Count count;
  for (const auto& [name, overloads] : names_) {
    const std::unique_ptr<Operator> made = Read(name, &count);
    count.names += !made->overloads.empty();
    count.overloads += static_cast<int>(made->overloads.size());
  }
  return count;
}

std::string SchemaText(const Overload& overload) {
  std::ostringstream text;
  text << overload.schema();
  std::string schema = text.str();
  if (absl::StartsWith(schema, kNamespace)) schema.erase(0, kNamespace.size());
  return schema;
}

}  // namespace moonring::lua
