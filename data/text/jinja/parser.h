// Parses a template's source to a tree, by the grammar of Jinja2 3.1 with the tags break, continue
// and generation that Transformers adds.
#ifndef MOONRING_DATA_TEXT_JINJA_PARSER_H_
#define MOONRING_DATA_TEXT_JINJA_PARSER_H_

#include "absl/strings/string_view.h"
#include "data/text/jinja/tree.h"

namespace moonring::data::jinja {

// Throws SyntaxError: INVALID_ARGUMENT for syntax that Jinja2 rejects too, UNIMPLEMENTED for Jinja2
// features that are missing here (block, extends, include, import, from, autoescape, recursive
// loops). `source` must be well-formed UTF-8.
Block Parse(absl::string_view source);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_PARSER_H_
