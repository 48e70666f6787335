#include "data/text/tools/json_formats.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

std::string Call(const ToolCall& call, const char* arguments) {
  return PythonJson({{"name", call.name}, {arguments, call.arguments}});
}

// Each tool in its wrapped form, on its own line.
std::string WrappedLines(const OrderedJson& tools) {
  std::string lines;
  for (const OrderedJson& tool : tools)
    absl::StrAppend(&lines, "\n", PythonJson(WrappedTool(tool)));
  return lines;
}

constexpr char kToolCallTags[] =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n"
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

constexpr char kSignatures[] =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";

}  // namespace

absl::StatusOr<std::string> DescribeForQwen(const OrderedJson& tools, const std::string&) {
  return absl::StrCat("\n\n", kSignatures, WrappedLines(tools), kToolCallTags);
}

absl::StatusOr<std::string> CallForQwen(const std::vector<ToolCall>& calls) {
  return absl::StrJoin(calls, "\n", [](std::string* text, const ToolCall& call) {
    absl::StrAppend(text, "<tool_call>\n", Call(call, "arguments"), "\n</tool_call>");
  });
}

absl::StatusOr<std::string> DescribeForLing(const OrderedJson& tools, const std::string&) {
  return absl::StrCat(kSignatures, WrappedLines(tools), kToolCallTags, "\ndetailed thinking off");
}

absl::StatusOr<std::string> DescribeForGlm4(const OrderedJson& tools, const std::string&) {
  std::string text =
      "你是一个名为 ChatGLM 的人工智能助手。你是基于智谱 AI 公司训练的语言模型 GLM-4 模型开发的，"
      "你的任务是针对用户的问题和要求提供适当的答复和支持。\n\n# 可用工具";
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    absl::StrAppend(&text, "\n\n## ", (*bare)["name"].get<std::string>(), "\n\n",
                    PythonJson(*bare, 4), "\n在调用上述函数时，请使用 Json 格式表示调用的参数。");
  }
  return text;
}

absl::StatusOr<std::string> CallForGlm4(const std::vector<ToolCall>& calls) {
  if (calls.size() != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("the tool format glm4 takes one call a message, got ", calls.size()));
  return absl::StrCat(calls[0].name, "\n", PythonJson(calls[0].arguments));
}

absl::StatusOr<std::string> DescribeForLlama3(const OrderedJson& tools, const std::string& date) {
  std::string text =
      absl::StrCat("Cutting Knowledge Date: December 2023\nToday Date: ", date,
                   "\n\nYou have access to the following functions. To call a function, please "
                   "respond with JSON for a function call. "
                   "Respond in the format {\"name\": function name, \"parameters\": dictionary of "
                   "argument name and its value}. Do not use variables.\n\n");
  for (const OrderedJson& tool : tools)
    absl::StrAppend(&text, PythonJson(WrappedTool(tool), 4), "\n\n");
  return text;
}

absl::StatusOr<std::string> CallForLlama3(const std::vector<ToolCall>& calls) {
  const std::string joined = absl::StrJoin(
      calls, ", ",
      [](std::string* text, const ToolCall& call) { text->append(Call(call, "parameters")); });
  return calls.size() == 1 ? joined : absl::StrCat("[", joined, "]");
}

absl::StatusOr<std::string> DescribeForMiniMax1(const OrderedJson& tools, const std::string&) {
  std::string text = "You are provided with these tools:\n<tools>\n";
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    absl::StrAppend(&text, PythonJson(*bare), "\n");
  }
  return absl::StrCat(text,
                      "</tools>\n\nIf you need to call tools, please respond with "
                      "<tool_calls></tool_calls> XML tags, and provide tool-name and "
                      "json-object of arguments, following the format "
                      "below:\n<tool_calls>\n{\"name\": <tool-name-1>, \"arguments\": "
                      "<args-json-object-1>}\n...\n</tool_calls>");
}

absl::StatusOr<std::string> CallForMiniMax1(const std::vector<ToolCall>& calls) {
  const std::string lines = absl::StrJoin(calls, "\n", [](std::string* text, const ToolCall& call) {
    text->append(Call(call, "arguments"));
  });
  return absl::StrCat("<tool_calls>\n", lines, "\n</tool_calls>");
}

absl::StatusOr<std::string> DescribeForMistral(const OrderedJson& tools, const std::string&) {
  OrderedJson wrapped = OrderedJson::array();
  for (const OrderedJson& tool : tools) wrapped.push_back(WrappedTool(tool));
  return absl::StrCat("[AVAILABLE_TOOLS] ", PythonJson(wrapped), "[/AVAILABLE_TOOLS]");
}

absl::StatusOr<std::string> CallForMistral(const std::vector<ToolCall>& calls) {
  return absl::StrCat("[",
                      absl::StrJoin(calls, ", ",
                                    [](std::string* text, const ToolCall& call) {
                                      text->append(Call(call, "arguments"));
                                    }),
                      "]");
}

absl::StatusOr<std::string> DescribeForLfm2(const OrderedJson& tools, const std::string&) {
  OrderedJson listed = OrderedJson::array();
  for (const OrderedJson& tool : tools) {
    ASSIGN_OR_RETURN(const OrderedJson* bare, BareTool(tool));
    listed.push_back(*bare);
  }
  return absl::StrCat("List of tools: <|tool_list_start|>", PythonJson(listed),
                      "<|tool_list_end|>");
}

absl::StatusOr<std::string> CallForLfm2(const std::vector<ToolCall>& calls) {
  std::vector<std::string> written;
  for (const ToolCall& call : calls) {
    RETURN_IF_ERROR(CheckArguments(call));
    std::vector<std::string> arguments;
    for (const auto& item : call.arguments.items()) {
      // Strings are put in quotes without escaping the quotes inside them.
      const char* quote = item.value().is_string() ? "\"" : "";
      arguments.push_back(absl::StrCat(item.key(), "=", quote, TextOrJson(item.value()), quote));
    }
    written.push_back(absl::StrCat(call.name, "(", absl::StrJoin(arguments, ", "), ")"));
  }
  return absl::StrCat("<|tool_call_start|>[", absl::StrJoin(written, ", "), "]<|tool_call_end|>");
}

}  // namespace moonring::data
