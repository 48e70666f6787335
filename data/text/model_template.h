// The chat template in a model's files, found and rendered like apply_chat_template of Transformers
// 4.57.
//
// The template is read from chat_template.jinja, otherwise from the field chat_template of
// tokenizer_config.json: a string, or a list of {name, template}, of which "default" is used. (For
// GGUF files, tokenizer_config.json is generated from tokenizer.chat_template.) chat_template.json
// is for image and audio processors and is not read.
//
// The template's variables are messages, tools, documents, add_generation_prompt, the caller's
// additional variables, and the special tokens that exist, by name (bos_token, eos_token, ...,
// additional_special_tokens).
#ifndef MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_
#define MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/jinja/template.h"
#include "data/text/json/python_json.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

class ModelTemplate {
 public:
  // Contents of the model's files, empty for missing ones; `where` is the model's folder in
  // messages.
  struct Files {
    std::string chat_template, tokenizer_config,
        tokenizer;  // chat_template.jinja, tokenizer_config.json, tokenizer.json
    std::string where;
  };

  // Null if the model has no template. Fails as jinja::Template::Parse.
  static absl::StatusOr<std::shared_ptr<const ModelTemplate>> Find(
      const Files& files, std::shared_ptr<const Tokenizer> tokenizer);

  // Messages are {role, content}. `more`: an object with additional variables, such as
  // enable_thinking.
  absl::StatusOr<std::string> Render(OrderedJson messages, bool add_generation_prompt,
                                     const OrderedJson& more = OrderedJson::object()) const;

  // Renders and tokenizes: special tokens in the text are parsed, none are added.
  absl::StatusOr<std::vector<int32_t>> Encode(
      OrderedJson messages, bool add_generation_prompt,
      const OrderedJson& more = OrderedJson::object()) const;

  // The text of the special tokens that the tokenizer adds to every text that it encodes.
  const std::string& opening() const { return opening_; }

  bool is_one_of_several() const { return one_of_several_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ModelTemplate(jinja::Template parsed, std::shared_ptr<const Tokenizer> tokenizer)
      : template_(std::move(parsed)), tokenizer_(std::move(tokenizer)) {}

  jinja::Template template_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  OrderedJson words_;  // special tokens by name
  std::string opening_;
  bool one_of_several_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_MODEL_TEMPLATE_H_
