// A Jinja2 template, rendered byte for byte as Transformers renders models' chat templates:
// ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, break and continue, {%
// generation %}, tojson without escapes, raise_exception and strftime_now.
//
//   ASSIGN_OR_RETURN(const jinja::Template chat,
//                    jinja::Template::Parse(source, "tokenizer_config.json: chat_template"));
//   ASSIGN_OR_RETURN(const std::string text,
//                    chat.Render({{"messages", messages}, {"add_generation_prompt", true}}));
//
// Supported: for (with if, else, loop), if, set (names, tuples, a namespace's attributes, blocks),
// macro, call, filter, with, raw, generation; all of Jinja2's expressions and tests; its filters
// except filesizeformat, forceescape, groupby, pprint, random, striptags, urlencode, urlize,
// wordwrap and xmlattr; the methods of str, list, tuple and dict that templates use
// (data/text/jinja/methods.h). Not supported: block, extends, include, import, autoescape,
// recursive loops, integers beyond 64 bits.
//
// Errors have the form `name:LINE: message`: INVALID_ARGUMENT for errors that Jinja2 or Python
// would raise, with their messages, and for exceptions that the template raises; UNIMPLEMENTED for
// unsupported features; RESOURCE_EXHAUSTED if a rendering exceeds its limits. Thread-safe: Render
// is const.
#ifndef MOONRING_DATA_TEXT_JINJA_TEMPLATE_H_
#define MOONRING_DATA_TEXT_JINJA_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/jinja/budget.h"
#include "data/text/json/python_json.h"

namespace moonring::data::jinja {

struct RenderOptions {
  std::optional<int64_t> now;  // seconds since 1970, for strftime_now; default: the clock
  Limits limits;
};

class Template {
 public:
  // `name` is used in messages.
  static absl::StatusOr<Template> Parse(absl::string_view source, absl::string_view name);

  // `context`: an object; its fields are the template's variables.
  absl::StatusOr<std::string> Render(const OrderedJson& context,
                                     const RenderOptions& options = {}) const;

 private:
  struct Tree;
  Template(std::string name, std::shared_ptr<const Tree> tree)
      : name_(std::move(name)), tree_(std::move(tree)) {}

  std::string name_;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TEMPLATE_H_
