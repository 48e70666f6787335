// Renders templates for the scripts in tests/golden/jinja, which compare the results with Jinja2's.
// Reads lines of {"template", "context", "now"}, writes lines of {"text"} or {"code", "error"}.

#include <iostream>
#include <string>

#include "data/text/jinja/template.h"

int main() {
  using moonring::data::OrderedJson;
  std::string line;
  while (std::getline(std::cin, line)) {
    const OrderedJson given = OrderedJson::parse(line);
    const auto parsed =
        moonring::data::jinja::Template::Parse(given["template"].get<std::string>(), "template");
    const absl::StatusOr<std::string> text =
        parsed.ok() ? parsed->Render(given["context"], {.now = given.value("now", int64_t{0})})
                    : absl::StatusOr<std::string>(parsed.status());
    OrderedJson said;
    if (text.ok()) {
      said["text"] = *text;
    } else {
      said["code"] = absl::StatusCodeToString(text.status().code());
      said["error"] = std::string(text.status().message());
    }
    std::cout << said.dump() << "\n";
  }
}
