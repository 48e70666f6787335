#include "data/text/tools/tagged_formats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

// The tags around a call and its arguments: begin NAME after_name { key KEY value VALUE after_value
// } end.
struct Tags {
  const char *begin, *after_name, *key, *value, *after_value, *end;
};

absl::StatusOr<std::string> Calls(const std::vector<ToolCall>& calls, const Tags& tags) {
  std::vector<std::string> written;
  for (const ToolCall& call : calls) {
    RETURN_IF_ERROR(CheckArguments(call));
    std::string& text = written.emplace_back(absl::StrCat(tags.begin, call.name, tags.after_name));
    for (const auto& item : call.arguments.items()) {
      absl::StrAppend(&text, tags.key, item.key(), tags.value, TextOrJson(item.value()),
                      tags.after_value);
    }
    text += tags.end;
  }
  return absl::StrJoin(written, "\n");
}

}  // namespace

absl::StatusOr<std::string> DescribeForGlm4Moe(const OrderedJson& tools, const std::string&) {
  std::string text =
      "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
      "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const OrderedJson& tool : tools) absl::StrAppend(&text, "\n", PythonJson(WrappedTool(tool)));
  return absl::StrCat(text,
                      "\n</tools>\n\nFor each function call, output the function name and "
                      "arguments within the following XML format:\n"
                      "<tool_call>{function-name}\n<arg_key>{arg-key-1}</"
                      "arg_key>\n<arg_value>{arg-value-1}</arg_value>\n"
                      "<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>\n"
                      "...\n</tool_call>\n");
}

// GLM-4.5's calls, without their closing tag, which LLaMA-Factory omits too.
absl::StatusOr<std::string> CallForGlm4Moe(const std::vector<ToolCall>& calls) {
  return Calls(calls,
               {"\n<tool_call>", "", "\n<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>", ""});
}

absl::StatusOr<std::string> DescribeForMiniMax2(const OrderedJson& tools, const std::string&) {
  std::string text =
      "\n\n# Tools\n\nYou may call one or more tools to assist with the user query.\nHere are the "
      "tools available in JSONSchema format:\n\n<tools>\n";
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    absl::StrAppend(&text, "<tool>", PythonJson(*bare), "</tool>\n");
  }
  return absl::StrCat(
      text,
      "</tools>\n\nWhen making tool calls, use XML format to invoke tools and pass "
      "parameters:\n\n<minimax:tool_call>\n"
      "<invoke name=\"tool-name-1\">\n<parameter name=\"param-key-1\">param-value-1</parameter>\n"
      "<parameter "
      "name=\"param-key-2\">param-value-2</parameter>\n...\n</invoke>\n</minimax:tool_call>");
}

absl::StatusOr<std::string> CallForMiniMax2(const std::vector<ToolCall>& calls) {
  return Calls(calls, {"<invoke name=\"", "\">", "\n<parameter name=\"", "\">", "</parameter>",
                       "\n</invoke>"});
}

absl::StatusOr<std::string> DescribeForQwen35(const OrderedJson& tools, const std::string&) {
  std::string text = "\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>";
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    absl::StrAppend(&text, "\n", PythonJson(*bare));
  }
  return absl::StrCat(text,
                      "\n</tools>\n\nIf you choose to call a function ONLY reply in the following "
                      "format with NO suffix:\n\n"
                      "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_"
                      "1>\nvalue_1\n</parameter>\n"
                      "<parameter=example_parameter_2>\nThis is the value for the second "
                      "parameter\nthat can span\nmultiple lines\n"
                      "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
                      "- Function calls MUST follow the specified format: an inner "
                      "<function=...></function> block must be nested within "
                      "<tool_call></tool_call> XML tags\n"
                      "- Required parameters MUST be specified\n"
                      "- You may provide optional reasoning for your function call in natural "
                      "language BEFORE the function call, but NOT after\n"
                      "- If there is no function call available, answer the question like normal "
                      "with your current knowledge and do not tell the user about "
                      "function calls\n</IMPORTANT>");
}

absl::StatusOr<std::string> CallForQwen35(const std::vector<ToolCall>& calls) {
  return Calls(calls, {"<tool_call>\n<function=", ">", "\n<parameter=", ">\n", "\n</parameter>",
                       "\n</function>\n</tool_call>"});
}

absl::StatusOr<std::string> DescribeForSeedOss(const OrderedJson& tools, const std::string&) {
  return absl::StrCat(
      "system\nYou are Doubao, a helpful AI assistant. You may call one or more functions to "
      "assist with the user query."
      "Tool List:\nYou are authorized to use the following tools (described in JSON Schema "
      "format). Before performing any task, you must decide how to call "
      "them based on the descriptions and parameters of these tools.\n",
      PythonJson(tools),
      "\n工具调用请遵循如下格式:\n<seed:tool_call>\n<function=example_function_name>\n<parameter="
      "example_parameter_1>value_1</parameter>\n"
      "<parameter=example_parameter_2>This is the value for the second parameter\nthat can "
      "span\nmultiple lines</parameter>\n</function>\n</seed:tool_call>\n");
}

absl::StatusOr<std::string> CallForSeedOss(const std::vector<ToolCall>& calls) {
  return Calls(calls, {"\n<seed:tool_call>\n<function=", "", "\n<parameter=", ">", "</parameter>",
                       "\n</function>\n</seed:tool_call>"});
}

}  // namespace moonring::data
