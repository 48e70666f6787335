// Lua bindings for optimizers, learning rate schedules, gradients, and the files that a run writes.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/files/held_files.h"
#include "base/memory/device_account.h"
#include "base/memory/heap.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"
#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/fields.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/custom_rule.h"
#include "lua/bindings/gradient_book.h"
#include "lua/bindings/script_call.h"
#include "lua/vm/vm.h"
#include "trainer/checkpoint/checkpoint_manifest.h"
#include "trainer/checkpoint/checkpoint_publisher.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/checkpoint/folder_lock.h"
#include "trainer/checkpoint/saved_states.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/device_settings.h"
#include "trainer/optimizer/embedding_names.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/schedule.h"
#include "trainer/optimizer/sgd.h"
#include "trainer/optimizer/zclip.h"
#include "trainer/reports/device_memory.h"
#include "trainer/reports/heat_map.h"
#include "trainer/reports/memory_watch.h"
#include "trainer/reports/metrics_log.h"
#include "trainer/reports/plots.h"
#include "trainer/reports/resources.h"
#include "trainer/sharding/gradients.h"
#include "trainer/sharding/states.h"
#include "trainer/sharding/zero.h"

namespace moonring::lua {
namespace {

std::shared_ptr<trainer::Optimizer> MakeAdamW(ParameterList& list, Options options) {
  trainer::AdamWOptions adamw;
  ReadFields(options, adamw);
  if (const auto zero = options.Find<std::shared_ptr<trainer::Zero>>("zero"))
    adamw.memory = (*zero)->memory();
  adamw.full_embeddings = options.Get<bool>("full_embeddings", false);
  const std::string state = options.Get<std::string>("state", "fp32");
  TORCH_CHECK_VALUE(state == "fp32" || state == "bf16" || state == "8bit",
                    "state: expected fp32, bf16 or 8bit, got '", state, "'");
  adamw.moments = state == "bf16"   ? trainer::MomentDtype::kBf16
                  : state == "8bit" ? trainer::MomentDtype::k8Bit
                                    : trainer::MomentDtype::kFull;
  options.Finish();
  return base::ValueOrThrow(trainer::AdamW::Create(adamw, list.parameters));
}

std::shared_ptr<trainer::Optimizer> MakeSgd(ParameterList& list, Options options) {
  trainer::SgdOptions sgd;
  ReadFields(options, sgd);
  options.Finish();
  return base::ValueOrThrow(trainer::Sgd::Create(sgd, list.parameters));
}

void StepOptimizer(lua_State* L, trainer::Optimizer& optimizer, double lr, Options options) {
  CheckSummed(L, optimizer);
  const bool has_settings = !lua_isnoneornil(L, 3);  // before the scope pushes anything there
  const CustomRuleScope rule(L, 1);
  if (!has_settings) return optimizer.Step(lr);
  trainer::StepSettings settings;
  ReadFields(options, settings);
  options.Finish();
  base::ThrowIfError(optimizer.StepWith(lr, settings));
}

std::shared_ptr<trainer::Schedule> MakeSchedule(Options options) {
  trainer::ScheduleOptions schedule;
  schedule.kind = options.Get<std::string>("kind", schedule.kind);
  schedule.learning_rate = options.Get<double>("learning_rate", schedule.learning_rate);
  schedule.warmup_steps = options.Get<int64_t>("warmup_steps", 0);
  schedule.warmup_ratio = options.Get<double>("warmup_ratio", 0.0);
  schedule.total_steps = options.Require<int64_t>("total_steps");
  schedule.num_cycles = options.Find<double>("num_cycles");
  schedule.min_lr = options.Find<double>("min_lr");
  schedule.min_lr_rate = options.Find<double>("min_lr_rate");
  schedule.warmup_lr_rate = options.Find<double>("warmup_lr_rate");
  schedule.lr_end = options.Find<double>("lr_end");
  schedule.power = options.Find<double>("power");
  schedule.min_lr_ratio = options.Find<double>("min_lr_ratio");
  schedule.num_stable_steps = options.Find<int64_t>("num_stable_steps");
  schedule.num_decay_steps = options.Find<int64_t>("num_decay_steps");
  schedule.warmup_type = options.Find<std::string>("warmup_type");
  schedule.decay_type = options.Find<std::string>("decay_type");
  options.Finish();
  return std::make_shared<trainer::Schedule>(
      base::ValueOrThrow(trainer::Schedule::Create(schedule)));
}

// Throws the error for a gradient norm that is not finite, which ends the run. `names` are in the
// order of a forward pass; the message lists them in reverse, the order of the backward.
void RefuseNonFinite(double norm, std::vector<std::string> names) {
  const size_t count = names.size();
  std::reverse(names.begin(), names.end());
  if (count > 3) names.resize(3);
  base::ThrowIfError(absl::AbortedError(absl::StrCat(
      "the gradient's norm is ", norm, ": not finite in ", count, " parameters (",
      absl::StrJoin(names, ", "), count > 3 ? ", ..., in the order of backward)" : ")")));
}

// Clips gradients that are already summed over ranks; returns their norm before clipping.
double ClipGradients(ParameterList& list, Options options) {
  const double max_norm = options.Get<double>("max_norm", 1.0);
  options.Finish();
  const double norm = trainer::GlobalNorm(list.parameters);
  if (!std::isfinite(norm)) RefuseNonFinite(norm, trainer::NonFiniteGradients(list.parameters));
  trainer::ClipByNorm(list.parameters, norm, max_norm);
  return norm;
}

double NormOfStates(trainer::States& states) {
  const double norm = base::ValueOrThrow(states.Norm());
  if (!std::isfinite(norm)) RefuseNonFinite(norm, base::ValueOrThrow(states.NonFinite()));
  return norm;
}

double ClipStates(trainer::States& states, Options options) {
  const double max_norm = options.Get<double>("max_norm", 1.0);
  const std::optional<double> known = options.Find<double>("norm");
  const double scale = options.Get<double>("loss_scale", 1.0);
  options.Finish();
  const double norm = known.has_value() ? *known : NormOfStates(states) / scale;
  trainer::ClipByNorm(states.shards(), norm, max_norm, scale);
  return norm;
}

std::shared_ptr<trainer::Zero> MakeZero(Options options) {
  const auto mesh = options.Require<std::shared_ptr<comm::Mesh>>("mesh");
  trainer::ZeroOptions wanted;
  ReadFields(options, wanted);
  options.Finish();
  TORCH_CHECK_VALUE(wanted.bucket_bytes > 0, "bucket_bytes: expected more than 0, got ",
                    wanted.bucket_bytes);
  return base::ValueOrThrow(trainer::Zero::Create(std::move(wanted), *mesh));
}

std::shared_ptr<trainer::States> MakeStates(std::shared_ptr<trainer::Zero> zero,
                                            ParameterList& list, Options options) {
  const auto held = options.Find<std::string>("held");
  options.Finish();
  return base::ValueOrThrow(
      trainer::States::Create(std::move(zero), list.parameters,
                              held.has_value() ? std::optional(DtypeNamed(*held)) : std::nullopt));
}

std::map<std::string, double> StatesNorms(trainer::States& states) {
  const std::vector<double> norms = base::ValueOrThrow(states.Norms());
  std::map<std::string, double> by_name;
  for (size_t i = 0; i < norms.size(); ++i) by_name[states.shards()[i]->name()] = norms[i];
  return by_name;
}

std::map<std::string, double> Norms(ParameterList& list) {
  std::map<std::string, double> by_name;
  for (const auto& parameter : list.parameters) {
    if (parameter->trainable()) by_name[parameter->name()] = trainer::GlobalNorm({parameter});
  }
  return by_name;
}

// Returns the lock; or nil and the reason, if the file system has no locks. The lock is released
// when it is closed or when the script has ended.
std::tuple<std::shared_ptr<trainer::FolderLock>, std::optional<std::string>> LockFolder(
    lua_State* L, std::string folder) {
  auto taken = trainer::FolderLock::Create(folder);
  if (absl::IsUnavailable(taken.status())) return {nullptr, std::string(taken.status().message())};
  std::shared_ptr<trainer::FolderLock> lock = base::ValueOrThrow(std::move(taken));
  // A lock that a script leaves open is released when the script ends. The garbage collector would
  // release it too late for the next script in this process.
  HostOf(L).closers.push_back(
      [held = std::weak_ptr<trainer::FolderLock>(lock)](const ScriptError&) {
        if (const auto left = held.lock()) left->Release();
      });
  return {lock, std::nullopt};
}

std::shared_ptr<trainer::MetricsLog> MakeLog(Options options) {
  trainer::MetricsLogOptions log;
  ReadFields(options, log);
  log.eval_steps = options.Get<int64_t>("eval_steps", log.logging_steps);
  log.keep = log.first_step > 0;
  options.Finish();
  return base::ValueOrThrow(trainer::MetricsLog::Create(std::move(log)));
}

// Writes one record to the log. Returns a readable text, the reason if the record is not on disk
// yet, and the record's line of JSON.
std::tuple<std::string, std::optional<std::string>, std::string> WriteRecord(
    trainer::MetricsLog& log, Options options) {
  trainer::StepRecord record;
  record.step = options.Require<int64_t>("step");
  record.epoch = options.Require<double>("epoch");
  record.loss = options.Find<double>("loss");
  record.learning_rate = options.Find<double>("lr");
  record.grad_norm = options.Find<double>("grad_norm");
  record.tokens = options.Require<int64_t>("tokens");
  record.step_seconds = options.Find<double>("step_seconds");
  record.seconds_at_peak = options.Find<double>("seconds_at_peak");
  record.causal_seconds_at_peak = options.Find<double>("causal_seconds_at_peak");
  record.more = options.Get<std::map<std::string, double>>("metrics", {});
  if (const auto peak = options.Find<double>("peak_memory_bytes"))
    record.more["peak_memory_bytes"] = *peak;
  options.Finish();
  const absl::Status written = log.Write(record);
  return {trainer::Summary(record, log.rates()),
          written.ok() ? std::nullopt : std::optional<std::string>(written.message()),
          log.last_line()};
}

void ReachStep(trainer::MetricsLog& log, Options options) {
  trainer::MetricsLog::Standing standing;
  standing.step = options.Require<int64_t>("step");
  standing.epoch = options.Require<double>("epoch");
  standing.tokens = options.Require<int64_t>("tokens");
  options.Finish();
  log.Reach(standing);
}

void PlotSeries(trainer::MetricsLog& log, std::string key, std::string path, std::string title) {
  base::ThrowIfError(trainer::WritePng(
      {.title = std::move(title), .y_label = key, .points = log.Series(key)}, path));
}

void SetBest(trainer::MetricsLog& log, Options options) {
  trainer::MetricsLog::Best best;
  best.metric = options.Require<double>("metric");
  best.step = options.Require<int64_t>("step");
  best.checkpoint = options.Require<std::string>("checkpoint");
  options.Finish();
  log.SetBest(std::move(best));
}

void WriteHeatMap(std::string path, Options options) {
  trainer::HeatMap map;
  map.title = options.Get<std::string>("title", "");
  map.x_label = options.Get<std::string>("x_label", "");
  map.y_label = options.Get<std::string>("y_label", "");
  map.columns = options.Require<std::vector<std::string>>("columns");
  map.rows = options.Require<std::vector<std::string>>("rows");
  map.shares = options.Require<std::vector<std::vector<double>>>("shares");
  options.Finish();
  base::ThrowIfError(trainer::WritePng(map, path));
}

// A buffer of files in memory, and the scope during which this thread writes to it.
struct HeldCheckpoint {
  std::shared_ptr<base::HeldFiles> files;
  std::unique_ptr<base::HeldFilesScope> scope;
};

std::shared_ptr<HeldCheckpoint> HoldFiles(Options options) {
  const auto folder = options.Require<std::string>("folder");
  const auto budget = options.Require<double>("budget");
  options.Finish();
  return std::make_shared<HeldCheckpoint>(HeldCheckpoint{
      std::make_shared<base::HeldFiles>(folder, static_cast<int64_t>(budget)), nullptr});
}

std::shared_ptr<trainer::CheckpointPublisher> PublishCheckpoint(Options options) {
  trainer::PublisherOptions publisher;
  publisher.draft = options.Require<std::string>("draft");
  publisher.folder = options.Require<std::string>("folder");
  publisher.names = options.Require<std::vector<std::string>>("names");
  if (const auto held = options.Find<std::shared_ptr<HeldCheckpoint>>("held"))
    publisher.held = (*held)->files;
  publisher.step = options.Require<int64_t>("step");
  publisher.rank = options.Get<int>("rank", 0);
  publisher.ranks = options.Get<int>("ranks", 1);
  if (const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("mesh"))
    publisher.notes = (*mesh)->notes();
  options.Finish();
  return std::make_shared<trainer::CheckpointPublisher>(std::move(publisher));
}

// Bytes by use. The names of uses have underscores, because they are keys of a Lua table.
using Bytes = std::map<std::string, int64_t>;

Bytes ByPart(const base::MemoryByPart& memory) {
  Bytes bytes;
  for (int i = 0; i < base::kMemoryParts; ++i) {
    bytes[absl::StrReplaceAll(base::MemoryPartName(static_cast<base::MemoryPart>(i)),
                              {{" ", "_"}})] = memory.bytes[i];
  }
  return bytes;
}

int64_t ScriptBytes(lua_State* L) {
  return int64_t{1024} * lua_gc(L, LUA_GCCOUNT, 0) + lua_gc(L, LUA_GCCOUNTB, 0);
}

// Returns the memory at the peak by use, totals, and GPU memory by use if a GPU was used; all in
// bytes.
std::tuple<Bytes, Bytes, std::optional<Bytes>> ReportOfWatch(lua_State* L,
                                                             trainer::MemoryWatch& watch) {
  const trainer::MemoryWatch::Peak peak = watch.peak(ScriptBytes(L));
  Bytes parts = ByPart(peak.moment.tensors);
  parts["data_and_libraries"] = peak.moment.data;
  parts["scripts"] = peak.moment.scripts;
  parts["held_by_allocator"] = peak.moment.held;
  parts["checkpoint_copy"] = peak.moment.copies;
  Bytes totals = {{"explained", peak.moment.explained()},
                  {"kernel", peak.kernel},
                  {"start_level", watch.level().kernel},
                  {"tensors", base::PeakMemory().total()}};
  const trainer::DeviceMemory device = trainer::ReadDeviceMemory();
  if (device.reserved_peak > 0)
    totals.insert(
        {{"device_allocated", device.allocated_peak}, {"device_reserved", device.reserved_peak}});
  const base::MemoryByPart on_device = base::PeakDeviceMemory();
  return {std::move(parts), std::move(totals),
          on_device.total() > 0 ? std::optional(ByPart(on_device)) : std::nullopt};
}

std::shared_ptr<trainer::MemoryWatch> WatchMemory(lua_State* L) {
  base::WatchDevice();
  return std::make_shared<trainer::MemoryWatch>(HostOf(L).memory_at_start);
}

// Pushes the peaks of GPU memory since the last call, { allocated, reserved }; nil if no GPU was
// used.
Pushed TakeDevicePeaks(lua_State* L) {
  const trainer::DeviceMemory memory = trainer::ReadDeviceMemory();
  trainer::ResetDevicePeaks();
  if (memory.reserved_peak == 0) {
    lua_pushnil(L);
    return {1};
  }
  Value<Bytes>::Push(L, {{"allocated", memory.allocated_peak}, {"reserved", memory.reserved_peak}});
  return {1};
}

// Pushes { name, major, minor, multiprocessors, driver, runtime } of this rank's GPU; nil without a
// GPU.
Pushed PushGpu(lua_State* L) {
  const std::optional<trainer::Gpu> gpu = trainer::ReadGpu();
  if (!gpu.has_value()) {
    lua_pushnil(L);
    return {1};
  }
  Value<Bytes>::Push(L, {{"major", gpu->major},
                         {"minor", gpu->minor},
                         {"multiprocessors", gpu->multiprocessors},
                         {"driver", gpu->driver},
                         {"runtime", gpu->runtime}});
  Value<std::string>::Push(L, gpu->name);
  lua_setfield(L, -2, "name");
  return {1};
}

// Pushes the lists of options that lua/types/trainer_options.lua is made from, each a table
// { name, options }; `name` is its class in annotations.
Pushed PushOptionLists(lua_State* L) {
  const std::pair<const char*, void (*)(lua_State*)> lists[] = {
      {"AdamWOptions", &PushFields<trainer::AdamWOptions>},
      {"LogOptions", &PushFields<trainer::MetricsLogOptions>},
      {"SgdOptions", &PushFields<trainer::SgdOptions>},
      {"StepSettings", &PushFields<trainer::StepSettings>},
      {"ZeroOptions", &PushFields<trainer::ZeroOptions>},
  };
  lua_newtable(L);
  int count = 0;
  for (const auto& [name, push_fields] : lists) {
    lua_newtable(L);
    Value<std::string>::Push(L, name);
    lua_setfield(L, -2, "name");
    push_fields(L);
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, ++count);
  }
  return {1};
}

// The gradients that every rank must sum in the same call.
std::string GradientSum(const ParameterList& list) {
  int64_t numel = 0;
  for (const auto& parameter : list.parameters) numel += parameter->numel();
  return absl::StrCat("trainer.sum_gradients of ", list.parameters.size(), " parameters, ", numel,
                      " numbers");
}

}  // namespace

void OpenTrainer(lua_State* L) {
  HostOf(L).memory_at_start = trainer::ReadMemory(ScriptBytes(L));
  Class<trainer::Optimizer>::Register(
      L, "Optimizer",
      {
          {"step", Bind<&StepOptimizer>},
          {"state_bytes",
           Bind<[](trainer::Optimizer& optimizer) { return optimizer.state_bytes(); }>},
          {"average", Bind<[](trainer::Optimizer& optimizer, bool average) {
             return optimizer.Average(average);
           }>},
      });
  Class<trainer::Zero>::Register(
      L, "Zero",
      {
          {"states", Bind<&MakeStates>},
          {"lockstep", Bind<[](trainer::Zero& zero) { return zero.lockstep(); }>},
          {"expert_ranks", Bind<[](trainer::Zero& zero) { return zero.experts()->size(); }>},
          {"expert_traffic", Bind<[](trainer::Zero& zero) {
             const comm::Communicator::Counters counters = zero.experts()->counters();
             return std::make_tuple(counters.steps, counters.bytes_sent);
           }>},
          {"__tostring", Bind<[](trainer::Zero& zero) {
             return absl::StrCat("Zero stage ", zero.options().stage, ", sharded over ",
                                 zero.shards()->size(), " of ",
                                 zero.shards()->size() * zero.replicas()->size(), " ranks");
           }>},
      });
  Class<trainer::States>::Register(
      L, "States",
      {
          {"parameters", Bind<[](trainer::States& states) {
             return std::make_shared<ParameterList>(ParameterList{states.shards()});
           }>},
          {"sum_gradients", Bind<[](trainer::States& states) { return states.SumGradients(); }>},
          {"clip", Bind<&ClipStates>},
          {"norm", Bind<&NormOfStates>},
          {"norms", Bind<&StatesNorms>},
          {"gradient",
           Bind<[](trainer::States& states, std::string name) { return states.Gradient(name); }>},
          {"take_gradients", Bind<[](trainer::States& states) { return states.TakeGradients(); }>},
          {"set_gradient", Bind<[](trainer::States& states, std::string name, at::Tensor gradient) {
             return states.SetGradient(name, gradient);
           }>},
          {"dot", Bind<[](trainer::States& states, trainer::States::Gradients a,
                          trainer::States::Gradients b) { return states.Dot(a, b); }>},
          {"publish", Bind<[](trainer::States& states) { return states.Publish(); }>},
          {"clear_gradients", Bind<[](trainer::States& states) { states.ClearGradients(); }>},
          {"lockstep", Bind<[](trainer::States& states) { return states.zero()->lockstep(); }>},
          {"place", Bind<[](trainer::States& states) {
             const trainer::Zero& zero = *states.zero();
             return std::make_tuple(zero.shards()->rank(), zero.shards()->size(),
                                    zero.replicas()->rank() == 0);
           }>},
          {"save", Bind<[](trainer::States& states, trainer::Optimizer& optimizer,
                           std::optional<bool> keeps) {
             return base::ValueOrThrow(
                 trainer::SaveStates(states, optimizer, keeps.value_or(true)));
           }>},
          {"load", Bind<[](lua_State* state, trainer::States& states, trainer::Optimizer& optimizer,
                           std::vector<trainer::StateTensors> saved) {
             const CustomRuleScope rule(state, 2);
             return trainer::LoadStates(states, optimizer, saved);
           }>},
          {"bytes", Bind<[](trainer::States& states) {
             const trainer::States::Bytes bytes = states.bytes();
             return std::make_tuple(bytes.weights, bytes.gradients);
           }>},
      });
  Class<trainer::Schedule>::Register(
      L, "Schedule",
      {
          {"at", Bind<[](trainer::Schedule& schedule, int64_t step_index) {
             return schedule.At(step_index);
           }>},
          {"warmup_steps",
           Bind<[](trainer::Schedule& schedule) { return schedule.warmup_steps(); }>},
      });
  Class<trainer::ZClip>::Register(
      L, "ZClip",
      {
          {"limit", Bind<[](trainer::ZClip& clip, double norm) { return clip.Limit(norm); }>},
          {"state", Bind<[](trainer::ZClip& clip) { return clip.SaveState(); }>},
          {"load_state",
           Bind<[](trainer::ZClip& clip, std::string text) { return clip.LoadState(text); }>},
      });
  Class<trainer::MetricsLog>::Register(
      L, "Log",
      {
          {"write", Bind<&WriteRecord>},
          {"reach", Bind<&ReachStep>},
          {"finish", Bind<[](trainer::MetricsLog& log, double train_loss, int64_t examples) {
             base::ThrowIfError(log.Finish(train_loss, examples));
             return log.train_results();
           }>},
          {"finish_log", Bind<[](trainer::MetricsLog& log, std::map<std::string, double> more) {
             return log.End(more);
           }>},
          {"plot", Bind<&PlotSeries>},
          {"lines", Bind<[](trainer::MetricsLog& log) { return log.lines(); }>},
          {"has", Bind<[](trainer::MetricsLog& log, std::string key) {
             return !log.Series(key).empty();
           }>},
          {"best", Bind<&SetBest>},
          {"state", Bind<[](trainer::MetricsLog& log, std::optional<std::string> folder) {
             return folder ? log.WriteState(*folder) : log.WriteState();
           }>},
          {"results", Bind<[](trainer::MetricsLog& log, std::string name,
                              std::map<std::string, double> results) {
             return log.WriteResults(name, results);
           }>},
      });
  Class<trainer::FolderLock>::Register(
      L, "FolderLock",
      {{"stands", Bind<[](trainer::FolderLock& lock) { return lock.stands(); }>},
       {"place", Bind<[](trainer::FolderLock& lock) { return lock.place(); }>}});
  Class<trainer::MemoryWatch>::Register(
      L, "MemoryWatch",
      {{"take_peak", Bind<[](trainer::MemoryWatch& watch) { return watch.TakeKernelPeak(); }>},
       {"report", Bind<&ReportOfWatch>}});
  Class<trainer::CheckpointPublisher>::Register(
      L, "Publisher",
      {
          {"done", Bind<[](trainer::CheckpointPublisher& publisher) { return publisher.done(); }>},
          {"wait",
           Bind<[](trainer::CheckpointPublisher& publisher) { return publisher.result(); }>},
      });
  Class<HeldCheckpoint>::Register(
      L, "HeldFiles",
      {
          {"begin", Bind<[](HeldCheckpoint& held) {
             held.scope = std::make_unique<base::HeldFilesScope>(held.files);
           }>},
          {"finish", Bind<[](HeldCheckpoint& held) { held.scope.reset(); }>},
          {"bytes", Bind<[](HeldCheckpoint& held) { return held.files->bytes(); }>},
          {"was_full", Bind<[](HeldCheckpoint& held) { return held.files->was_full(); }>},
      });
  PushModule(
      L, "moonring.trainer",
      {
          {"hold_files", Bind<&HoldFiles>},
          {"publish_checkpoint", Bind<&PublishCheckpoint>},
          {"remove_checkpoint",
           Bind<[](std::string folder) { return trainer::RemoveCheckpoint(folder); }>},
          {"check_checkpoint",
           Bind<[](std::string folder) { return trainer::CheckCheckpoint(folder).status(); }>},
          {"option_lists", Bind<&PushOptionLists>},
          {"adamw", Bind<&MakeAdamW>},
          {"sgd", Bind<&MakeSgd>},
          {"own_optimizer", BindRaw<&MakeCustomOptimizer, 3>},
          {"parameter_facts", BindRaw<&PushParameterFacts, 1>},
          {"schedule", Bind<&MakeSchedule>},
          {"zclip", Bind<[] { return std::make_shared<trainer::ZClip>(); }>},
          {"zero", Bind<&MakeZero>},
          {"sum_gradients", Bind<[](lua_State* state, ParameterList& list, comm::Mesh& mesh) {
             MatchScriptCall(state, mesh.world(), GradientSum(list));
             return trainer::SumGradients(list.parameters, mesh.world());
           }>},
          {"clip_gradients", Bind<&ClipGradients>},
          {"is_embedding", Bind<[](std::string name) { return trainer::IsEmbedding(name); }>},
          {"global_norm",
           Bind<[](ParameterList& list) { return trainer::GlobalNorm(list.parameters); }>},
          {"norms", Bind<&Norms>},
          {"heat_map", Bind<&WriteHeatMap>},
          {"lock_folder", Bind<&LockFolder>},
          {"check_folder_lock", Bind<[](std::string folder) {
             base::ThrowIfError(trainer::FolderLock::Check(folder));
           }>},
          {"log", Bind<&MakeLog>},
          {"peak_memory", Bind<[] { return trainer::PeakResidentBytes(); }>},
          {"held_memory", Bind<[] { return base::ReadHeap().held; }>},
          {"release_memory", Bind<[](std::optional<double> seconds) {
             base::ReleaseHeap(seconds.value_or(std::numeric_limits<double>::infinity()));
           }>},
          {"live_memory", Bind<[] { return ByPart(base::LiveMemory()); }>},
          {"take_device_peaks", Bind<&TakeDevicePeaks>},
          {"gpu", Bind<&PushGpu>},
          {"deterministic",
           Bind<[](bool deterministic) { trainer::SetDeterministic(deterministic); }>},
          {"memory_watch", Bind<&WatchMemory>},
      });
  AddOptimizerRules(L);
  AddOuterSteps(L);
  AddReports(L);
}

}  // namespace moonring::lua
