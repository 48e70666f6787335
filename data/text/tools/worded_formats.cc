#include "data/text/tools/worded_formats.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

// A field as text; "" if it is missing.
std::string Field(const OrderedJson& object, const char* key) {
  return object.contains(key) ? PythonText(object[key]) : "";
}

// The line for one parameter: "  - name (type, required): description, should be one of [...],
// where each item should be type".
std::string ParameterLine(const std::string& name, const OrderedJson& parameter, bool required) {
  std::vector<std::string> choices;
  for (const OrderedJson& choice : FieldOrNull(parameter, "enum"))
    choices.push_back(PythonText(choice));
  const OrderedJson& items = FieldOrNull(parameter, "items");
  return absl::StrCat(
      "  - ", name, " (", Field(parameter, "type"), required ? ", required" : "",
      "): ", Field(parameter, "description"),
      choices.empty() ? ""
                      : absl::StrCat(", should be one of [", absl::StrJoin(choices, ", "), "]"),
      PythonTruth(items) ? absl::StrCat(", where each item should be ", Field(items, "type")) : "",
      "\n");
}

// Appends key:<|"|>text<|"|>; <|"|> is Gemma 4's quotation mark.
void AppendQuoted(const char* key, const std::string& text, std::vector<std::string>& parts) {
  parts.push_back(absl::StrCat(key, ":<|\"|>", text, "<|\"|>"));
}

void AppendType(const OrderedJson& schema, std::vector<std::string>& parts) {
  const OrderedJson& type = FieldOrNull(schema, "type");
  if (PythonTruth(type)) AppendQuoted("type", absl::AsciiStrToUpper(PythonText(type)), parts);
}

void AppendDescription(const OrderedJson& schema, std::vector<std::string>& parts) {
  const OrderedJson& description = FieldOrNull(schema, "description");
  if (PythonTruth(description)) AppendQuoted("description", PythonText(description), parts);
}

std::string Braced(const std::vector<std::string>& parts) {
  return absl::StrCat("{", absl::StrJoin(parts, ","), "}");
}

absl::StatusOr<std::string> GemmaParameters(const OrderedJson& schema, const std::string& tool) {
  RETURN_IF_ERROR(CheckObject(schema, tool, "'parameters'"));
  std::vector<std::string> parts;
  if (const OrderedJson& properties = FieldOrNull(schema, "properties"); PythonTruth(properties)) {
    RETURN_IF_ERROR(CheckObject(properties, tool, "'properties'"));
    std::vector<std::string> each;
    for (const auto& item : properties.items()) {
      std::vector<std::string> property;
      AppendDescription(item.value(), property);
      AppendType(item.value(), property);
      each.push_back(absl::StrCat(item.key(), ":", Braced(property)));
    }
    parts.push_back(absl::StrCat("properties:", Braced(each)));
  }
  if (const OrderedJson& required = FieldOrNull(schema, "required"); PythonTruth(required)) {
    const auto quoted = [](std::string* text, const OrderedJson& name) {
      absl::StrAppend(text, "<|\"|>", PythonText(name), "<|\"|>");
    };
    parts.push_back(absl::StrCat("required:[", absl::StrJoin(required, ",", quoted), "]"));
  }
  AppendType(schema, parts);
  return Braced(parts);
}

std::string GemmaValue(const OrderedJson& value);

// The object's fields, sorted by key.
std::string GemmaFields(const OrderedJson& object) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& item : object.items()) fields.emplace_back(item.key(), GemmaValue(item.value()));
  std::sort(fields.begin(), fields.end());
  return absl::StrJoin(fields, ",", absl::PairFormatter(":"));
}

std::string GemmaValue(const OrderedJson& value) {
  if (value.is_string()) return absl::StrCat("<|\"|>", value.get<std::string>(), "<|\"|>");
  if (value.is_object()) return absl::StrCat("{", GemmaFields(value), "}");
  if (value.is_array()) {
    return absl::StrCat("[",
                        absl::StrJoin(value, ",",
                                      [](std::string* text, const OrderedJson& item) {
                                        text->append(GemmaValue(item));
                                      }),
                        "]");
  }
  return PythonJson(value);
}

}  // namespace

absl::StatusOr<std::string> DescribeInWords(const OrderedJson& tools, const std::string&) {
  std::string text = "You have access to the following tools:\n";
  std::vector<std::string> names;
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    names.push_back(Field(*bare, "name"));
    const OrderedJson &parameters = FieldOrNull(*bare, "parameters"),
                      &properties = FieldOrNull(parameters, "properties");
    RETURN_IF_ERROR(CheckObject(parameters, names.back(), "'parameters'"));
    RETURN_IF_ERROR(CheckObject(properties, names.back(), "the parameters' 'properties'"));
    absl::StrAppend(&text, "> Tool Name: ", names.back(),
                    "\nTool Description: ", Field(*bare, "description"), "\nTool Args:\n");
    for (const auto& item : properties.items()) {
      text += ParameterLine(item.key(), item.value(),
                            absl::c_linear_search(FieldOrNull(parameters, "required"), item.key()));
    }
    text += "\n";
  }
  return absl::StrCat(
      text, "Use the following format if using a tool:\n```\nAction: tool name (one of [",
      absl::StrJoin(names, ", "),
      "])\nAction Input: the input to the tool, in a JSON format representing the kwargs "
      "(e.g. ```{\"input\": \"hello world\", \"num_beams\": 5}```)\n"
      "```\n");
}

absl::StatusOr<std::string> CallInWords(const std::vector<ToolCall>& calls) {
  return absl::StrJoin(calls, "\n", [](std::string* text, const ToolCall& call) {
    absl::StrAppend(text, "Action: ", call.name, "\nAction Input: ", PythonJson(call.arguments));
  });
}

absl::StatusOr<std::string> DescribeForGemma4(const OrderedJson& tools, const std::string&) {
  std::vector<std::string> declarations;
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    const std::string name = Field(*bare, "name");
    std::vector<std::string> parts;
    AppendQuoted("description", Field(*bare, "description"), parts);
    if (const OrderedJson& parameters = FieldOrNull(*bare, "parameters"); PythonTruth(parameters)) {
      ASSIGN_OR_RETURN(const std::string text, GemmaParameters(parameters, name));
      parts.push_back(absl::StrCat("parameters:", text));
    }
    if (const OrderedJson& response = FieldOrNull(*bare, "response"); PythonTruth(response)) {
      std::vector<std::string> response_parts;
      AppendDescription(response, response_parts);
      if (absl::AsciiStrToUpper(Field(response, "type")) == "OBJECT")
        AppendType(response, response_parts);
      parts.push_back(absl::StrCat("response:", Braced(response_parts)));
    }
    declarations.push_back(absl::StrCat("declaration:", name, Braced(parts)));
  }
  return absl::StrJoin(declarations, "\n");
}

absl::StatusOr<std::string> CallForGemma4(const std::vector<ToolCall>& calls) {
  return absl::StrJoin(calls, "", [](std::string* text, const ToolCall& call) {
    const OrderedJson& arguments = call.arguments;
    absl::StrAppend(text, "<|tool_call>call:", call.name, "{",
                    arguments.is_object()   ? GemmaFields(arguments)
                    : arguments.is_string() ? arguments.get<std::string>()
                                            : GemmaValue(arguments),
                    "}<tool_call|>");
  });
}

}  // namespace moonring::data
