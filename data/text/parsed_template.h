// Derives the slots of a template (data/text/template_spec.h) from the model's own chat template,
// as LLaMA-Factory 0.9.5 does if the configuration names no template: it renders conversations
// whose texts are {{content}}, and cuts out the text around them.
//
//   system     from a system message alone
//   assistant  from the text that is added if an answer follows a user's message
//   user       from a user's message with a generation prompt. If it is longer than with an empty
//              system message, the additional text is the default system text, and the system slot
//              with that text is cut off
//
// If an answer contains <think>, the template is a reasoning template. The text that the tokenizer
// adds to an empty text is removed from each rendering and becomes the prefix.
#ifndef MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_
#define MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_

#include "absl/status/statusor.h"
#include "data/text/model_template.h"
#include "data/text/template_spec.h"

namespace moonring::data {

// INVALID_ARGUMENT if the template rejects one of these conversations, or if a slot does not
// contain its text (for example because the template ignores system messages).
absl::StatusOr<TemplateSpec> ParseTemplate(const ModelTemplate& carried);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_
