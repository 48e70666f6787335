// Fuzzes JSON texts: each parser, then each operation on a value: display in messages, Python's
// format, replacing a field.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "data/text/json/json_fields.h"
#include "data/text/json/json_splice.h"
#include "data/text/json/python_json.h"
#include "model/files/json_text.h"
#include "nlohmann/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto value = moonring::model::ParseJson(text, "input"); value.ok())
    moonring::model::ShownJson(*value);
  if (const auto value = moonring::data::ParseJson(text, "input"); value.ok()) {
    const nlohmann::json copy = *value;
    (void)moonring::data::WrongType(copy, "something else", "input");
    if (copy.is_object()) {
      // Replacing a field gives JSON with the same contents except for that field.
      nlohmann::json wanted = copy;
      wanted["added_tokens"] = nlohmann::json::array({1});
      const auto spliced = moonring::data::ParseJson(
          moonring::data::WithField(text, "added_tokens", "[1]"), "spliced");
      if (!spliced.ok() || *spliced != wanted) __builtin_trap();
    }
  }
  if (const auto value = moonring::data::ParseOrderedJson(text); value.ok()) {
    moonring::data::PythonText(*value);
    moonring::data::PythonTruth(*value);
    moonring::data::PythonJson(*value, 2);
    // The output of PythonJson can be parsed again.
    if (!moonring::data::ParseOrderedJson(moonring::data::PythonJson(*value)).ok())
      __builtin_trap();
  }
  return 0;
}
