// The slots of a template (data/text/template_spec.h) out of the chat template that a model
// carries, as LLaMA-Factory 0.9.5 takes them where a configuration names none: conversations whose
// texts are {{content}} are rendered, and what stands around them is cut out.
//
//   system     a system message alone                     assistant   what a user's message and an
//   answer have beyond the user's alone user       a user's message and a generation prompt; where
//   it is longer than with an empty system message, what it has more is the default system
//              text, and the system slot with that is cut off
//
// Answers with <think> in them make it a reasoning template. What the tokenizer puts before an
// empty text comes off each rendering, and is the prefix.
#ifndef MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_
#define MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_

#include "absl/status/statusor.h"
#include "data/text/model_template.h"
#include "data/text/template_spec.h"

namespace moonring::data {

// INVALID_ARGUMENT: the template refuses one of these conversations, or a slot comes out without
// its text (as where a system message is passed over).
absl::StatusOr<TemplateSpec> ParseTemplate(const ModelTemplate& carried);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_PARSED_TEMPLATE_H_
