#include "lua/bindings/dataset.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include <ATen/Parallel.h>

#include "base/status/torch_status.h"
#include "base/threads/work_count.h"

namespace moonring::lua {
namespace {

// Default limit on the threads that convert rows. With more threads, reading the files is the
// bottleneck.
constexpr int kMostThreads = 16;

std::vector<data::Slot> ReadSlots(Options& fields, const char* name) {
  static const std::map<std::string, data::Slot::Kind> kKinds = {
      {"text", data::Slot::Kind::kText},
      {"bos", data::Slot::Kind::kBos},
      {"eos", data::Slot::Kind::kEos},
      {"token", data::Slot::Kind::kToken}};
  std::vector<data::Slot> slots;
  for (const auto& slot : fields.Require<std::vector<std::map<std::string, std::string>>>(name))
    slots.push_back({kKinds.at(slot.at("kind")), slot.at("text")});
  return slots;
}

// Reads a template table that moonring.data.templates has completed, so every field is present.
data::TemplateSpec ReadTemplate(Options fields) {
  static const std::map<std::string, data::TemplateSpec::Kind> kKinds = {
      {"plain", data::TemplateSpec::Kind::kPlain},
      {"system_in_user", data::TemplateSpec::Kind::kSystemInUser},
      {"reasoning", data::TemplateSpec::Kind::kReasoning}};
  static const std::map<std::string, data::TemplateSpec::Trim> kTrims = {
      {"nothing", data::TemplateSpec::Trim::kNothing},
      {"newlines", data::TemplateSpec::Trim::kNewlines},
      {"spaces", data::TemplateSpec::Trim::kSpaces}};
  data::TemplateSpec spec;
  spec.name = fields.Require<std::string>("name");
  spec.kind = kKinds.at(fields.Require<std::string>("class"));
  spec.prefix = ReadSlots(fields, "prefix");
  spec.system = ReadSlots(fields, "system");
  spec.user = ReadSlots(fields, "user");
  spec.assistant = ReadSlots(fields, "assistant");
  spec.function_call = ReadSlots(fields, "function_call");
  spec.observation = ReadSlots(fields, "observation");
  spec.tools = fields.Require<std::string>("tools");
  spec.tool_format = fields.Require<std::string>("tool_format");
  spec.date = fields.Require<std::string>("date");
  spec.default_system = fields.Require<std::string>("default_system");
  spec.stop_words = fields.Require<std::vector<std::string>>("stop_words");
  spec.thought_begin = fields.Require<std::string>("thought_begin");
  spec.thought_end = fields.Require<std::string>("thought_end");
  spec.empty_thought = fields.Require<std::string>("empty_thought");
  spec.writes_thoughts = fields.Require<bool>("writes_thoughts");
  spec.written_begin = fields.Require<std::string>("written_begin");
  spec.written_end = fields.Require<std::string>("written_end");
  spec.before_text = fields.Require<std::string>("before_text");
  spec.thought_trim = kTrims.at(fields.Require<std::string>("thought_trim"));
  spec.tool_call_begin = fields.Require<std::string>("tool_call_begin");
  spec.tool_call_end = fields.Require<std::string>("tool_call_end");
  spec.replace_eos = fields.Require<bool>("replace_eos");
  spec.efficient_eos = fields.Require<bool>("efficient_eos");
  spec.enable_thinking = fields.Find<bool>("enable_thinking");
  spec.preserve_thinking = fields.Require<bool>("preserve_thinking");
  fields.Finish();
  return spec;
}

}  // namespace

data::TemplateSpec Value<data::TemplateSpec>::Read(lua_State* L, int index) {
  return ReadTemplate(Options(L, index));
}

std::map<std::string, data::FetchedFiles> Value<std::map<std::string, data::FetchedFiles>>::Read(
    lua_State* L, int index) {
  CheckType(L, index, LUA_TTABLE);
  std::map<std::string, data::FetchedFiles> fetched;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    Options fields(L, lua_gettop(L));
    data::FetchedFiles& each = fetched[Value<std::string>::Read(L, lua_gettop(L) - 1)];
    each.files = fields.Require<std::vector<std::string>>("files");
    each.split = fields.Get<std::string>("split", "train");
    each.entry = fields.Get<std::string>("entry", "");
    fields.Finish();
  }
  return fetched;
}

data::DatasetOptions ReadExampleOptions(Options& options) {
  data::DatasetOptions wanted;
  wanted.stage = base::ValueOrThrow(data::ParseStage(options.Get<std::string>("stage", "sft")));
  wanted.chat_template = options.Require<data::TemplateSpec>("template");
  wanted.default_system = options.Find<std::string>("default_system");
  wanted.cutoff_len = options.Get<int64_t>("cutoff_len", 2048);
  wanted.train_on_prompt = options.Get<bool>("train_on_prompt", false);
  wanted.mask_history = options.Get<bool>("mask_history", false);
  wanted.overlong =
      base::ValueOrThrow(data::ParseOverlong(options.Get<std::string>("overlong", "truncate")));
  wanted.packing = options.Find<bool>("packing");
  wanted.neat_packing = options.Get<bool>("neat_packing", false);
  wanted.one_turn = options.Get<bool>("one_turn", false);
  wanted.preprocessing_batch_size = options.Get<int64_t>("preprocessing_batch_size", 1000);
  wanted.threads = options.Get<int64_t>("threads", std::min(kMostThreads, at::get_num_threads()));
  wanted.seed = options.Get<int64_t>("seed", 42);
  wanted.work = options.Get<std::shared_ptr<base::WorkCount>>("work", nullptr);
  return wanted;
}

data::DatasetOptions ReadDatasetOptions(Options& options) {
  data::DatasetOptions wanted = ReadExampleOptions(options);
  wanted.names = options.Require<std::vector<std::string>>("names");
  wanted.dataset_dir = options.Get<std::string>("dir", "data");
  wanted.dir_is_checkout = options.Get<bool>("dir_is_checkout", false);
  wanted.fetched = options.Get<std::map<std::string, data::FetchedFiles>>("fetched", {});
  wanted.max_samples = options.Find<int64_t>("max_samples");
  wanted.mix.strategy = base::ValueOrThrow(
      data::ParseMixStrategy(options.Get<std::string>("mix_strategy", "concat")));
  wanted.mix.probabilities = options.Get<std::vector<double>>("interleave_probs", {});
  return wanted;
}

}  // namespace moonring::lua
