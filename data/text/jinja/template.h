// A template in Jinja2's language, as Transformers renders the chat templates that models carry:
// ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, break and continue, {%
// generation %}, tojson without escapes, raise_exception and strftime_now. What is rendered is
// equal to Transformers' byte for byte.
//
//   ASSIGN_OR_RETURN(const jinja::Template chat, jinja::Template::Parse(source,
//   "tokenizer_config.json: chat_template")); ASSIGN_OR_RETURN(const std::string text,
//   chat.Render({{"messages", messages}, {"add_generation_prompt", true}}));
//
// Supported: for (with if, else, loop), if, set (names, tuples, a namespace's attributes, blocks),
// macro, call, filter, with, raw, generation; all of Jinja2's expressions and tests; its filters
// but for filesizeformat, forceescape, groupby, pprint, random, striptags, urlencode, urlize,
// wordwrap and xmlattr; the methods of str, list, tuple and dict that templates use
// (data/text/jinja/methods.h). Not: block, extends, include, import, autoescape, recursive loops,
// integers beyond 64 bits.
//
// Errors are `name:LINE: what`: INVALID_ARGUMENT for what Jinja2 or Python refuses, in their words,
// and for what the template itself raises; UNIMPLEMENTED names what is not supported;
// RESOURCE_EXHAUSTED where a rendering takes more than its limits. Thread-safe: Render changes
// nothing.
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
  std::optional<int64_t> now;  // seconds since 1970, for strftime_now; absent: the clock's
  Limits limits;
};

class Template {
 public:
  // `name` is what messages call it.
  static absl::StatusOr<Template> Parse(absl::string_view source, absl::string_view name);

  // `context`: an object, whose fields are the template's names.
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
