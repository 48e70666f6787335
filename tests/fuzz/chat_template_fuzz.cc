// Fuzzes a model's chat template: parses it, renders a conversation, and derives slots.
#include <cstdint>
#include <string>

#include "data/text/jinja/template.h"
#include "data/text/model_template.h"
#include "data/text/parsed_template.h"
#include "tests/fuzz/small_tokenizer.h"

namespace {

using namespace moonring::data;

// Lower limits than in real use, so that a template that reaches them does not slow down the
// fuzzer. The limit of the depth, which protects the stack, is the real one.
constexpr jinja::Limits kLimits = {.steps = 50'000, .bytes = 1 << 22};

OrderedJson Context() {
  return OrderedJson::parse(
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", )"
      R"("content": "Hi \u00e9\ud83d\ude00"},
      {"role": "assistant", "content": "<think>so</think>Hello", )"
      R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": [1, )"
      R"(2.5, null]}}}]},
      {"role": "tool", "content": "3"}, {"role": "user", "content": [{"type": "text", )"
      R"("text": "?"}]}],
      "tools": [{"type": "function", "function": {"name": "f", "description": "<d> & 'q'", )"
      R"("parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": -7, )"
      R"("big": 9223372036854775807, "half": 0.5, "none": null, "empty": {}})");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const Tokenizer> tokenizer = moonring::fuzz::SmallTokenizer();
  static const OrderedJson context = Context();
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto parsed = jinja::Template::Parse(source, "input");
  if (!parsed.ok()) return 0;
  const auto text = parsed->Render(context, {.now = 1'700'000'000, .limits = kLimits});
  // A template that exceeds these limits would take too long in ParseTemplate, whose limits are
  // higher.
  if (text.status().code() == absl::StatusCode::kResourceExhausted) return 0;
  const auto carried = ModelTemplate::Find({.chat_template = source, .where = "folder"}, tokenizer);
  if (!carried.ok() || *carried == nullptr) return 0;
  (void)ParseTemplate(**carried);
  return 0;
}
