// A template's source as a tree. Grammar: Jinja2 3.1's, with the tags break, continue and
// generation that Transformers adds.
#ifndef MOONRING_DATA_TEXT_JINJA_PARSER_H_
#define MOONRING_DATA_TEXT_JINJA_PARSER_H_

#include "absl/strings/string_view.h"
#include "data/text/jinja/tree.h"

namespace moonring::data::jinja {

// Throws SyntaxError: INVALID_ARGUMENT for what Jinja2 refuses, UNIMPLEMENTED for what it knows and
// this does not (block, extends, include, import, from, autoescape, recursive loops). `source` is
// well-formed UTF-8.
Block Parse(absl::string_view source);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_PARSER_H_
