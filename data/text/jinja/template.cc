#include "data/text/jinja/template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "data/text/jinja/interpreter.h"
#include "data/text/jinja/lexer.h"
#include "data/text/jinja/parser.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {

struct Template::Tree {
  Block block;
};

absl::StatusOr<Template> Template::Parse(absl::string_view source, absl::string_view name) {
  constexpr size_t kMostSource = size_t{16} << 20;
  if (source.size() > kMostSource)
    return absl::InvalidArgumentError(absl::StrCat(name, ": a template of ", source.size(),
                                                   " bytes; expected at most ", kMostSource));
  try {
    return Template(std::string(name),
                    std::make_shared<const Tree>(Tree{jinja::Parse(ReplaceMalformedUtf8(source))}));
  } catch (const SyntaxError& error) {
    return absl::Status(error.code(), absl::StrCat(name, ":", error.line(), ": ", error.what()));
  }
}

absl::StatusOr<std::string> Template::Render(const OrderedJson& context,
                                             const RenderOptions& options) const {
  Machine machine(options.limits);
  machine.now = options.now;
  try {
    const Value values = Value::Of(context, options.limits.depth);
    return Interpreter(machine, values).Render(tree_->block);
  } catch (const Error& error) {
    return absl::Status(error.code(), absl::StrCat(name_, ":", machine.line, ": ", error.what()));
  }
}

}  // namespace moonring::data::jinja
