// Lua bindings for reports about a running training: the progress display, and the trackers that
// the key report_to names.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "base/threads/work_count.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"
#include "lua/report/line_program.h"
#include "lua/vm/vm.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/reports/device_memory.h"
#include "trainer/reports/event_file.h"
#include "trainer/reports/matmul_rate.h"
#include "trainer/reports/progress.h"
#include "trainer/reports/run_record.h"

namespace moonring::lua {

template <>
struct Value<trainer::Hyperparameter> {
  static trainer::Hyperparameter Read(lua_State* L, int index) {
    if (lua_isboolean(L, index)) return Value<bool>::Read(L, index);
    if (lua_type(L, index) == LUA_TNUMBER) return Value<double>::Read(L, index);
    return Value<std::string>::Read(L, index);
  }
};

namespace {

trainer::ProgressKind KindNamed(const std::string& name) {
  if (name == "auto")
    return trainer::OnTerminal(2) ? trainer::ProgressKind::kBar : trainer::ProgressKind::kPlain;
  const std::map<std::string, trainer::ProgressKind> kinds = {
      {"bar", trainer::ProgressKind::kBar},
      {"plain", trainer::ProgressKind::kPlain},
      {"json", trainer::ProgressKind::kJson},
      {"off", trainer::ProgressKind::kOff}};
  const auto found = kinds.find(name);
  TORCH_CHECK_VALUE(found != kinds.end(), "kind: expected auto, bar, plain, json or off, got '",
                    name, "'");
  return found->second;
}

// Whether progress is shown in colours. https://no-color.org: NO_COLOR counts if it is set and not
// empty.
bool WantsColors() {
  const char* none = std::getenv("NO_COLOR");
  return trainer::OnTerminal(2) && (none == nullptr || *none == '\0');
}

std::shared_ptr<trainer::Progress> MakeProgress(lua_State* L, Options options) {
  trainer::ProgressOptions wanted;
  wanted.kind = KindNamed(options.Get<std::string>("kind", "auto"));
  const bool on_gpu = options.Get<bool>("gpu", false);
  options.Finish();
  wanted.colors = WantsColors();
  wanted.watches = true;
  if (on_gpu) wanted.memory = [] { return trainer::ReadDeviceMemory().reserved; };
  const Host& host = HostOf(L);
  if (host.embedded) {
    wanted.watches = false;  // in an embedded runtime, callbacks must come on the application's own
                             // thread
    wanted.write_line = [log = host.log](const std::string& line) {
      if (log) log(LogKind::kNote, line);
    };
  }
  auto progress = std::make_shared<trainer::Progress>(std::move(wanted));
  // The display is closed before the program prints why a script failed, so that the message gets a
  // line of its own.
  HostOf(L).closers.push_back(
      [held = std::weak_ptr<trainer::Progress>(progress)](const ScriptError& error) {
        const auto left = held.lock();
        if (left == nullptr) return;
        if (error.exit_code != 0)
          left->LogOnly(absl::StrCat("moonring: ", error.error.Shown(), error.traceback));
        left->Close();
      });
  return progress;
}

// Opens run_state.json. If the script ends while the record says "running", its state becomes
// "failed" after an error ("stopped" if the embedding program cancelled it), and "stopped" without
// one.
std::shared_ptr<trainer::RunRecord> OpenRunRecord(lua_State* L, std::string path) {
  auto record = std::make_shared<trainer::RunRecord>(std::move(path));
  HostOf(L).closers.push_back(
      [held = std::weak_ptr<trainer::RunRecord>(record)](const ScriptError& error) {
        const auto left = held.lock();
        if (left == nullptr) return;
        const bool is_cancelled = error.error.code == absl::StatusCode::kCancelled;
        // A file that cannot be written still says "running", without a lock: a run that died.
        (void)(error.exit_code == 0
                   ? left->End("stopped", "the script ended before the run's last step")
                   : left->End(is_cancelled ? "stopped" : "failed", error.error.Shown()));
      });
  return record;
}

void Train(trainer::Progress& progress, Options options) {
  trainer::TrainingProgress training;
  training.total_steps = options.Require<int64_t>("total_steps");
  training.first_step = options.Get<int64_t>("first_step", 0);
  training.first_tokens = options.Get<int64_t>("first_tokens", 0);
  training.memory_limit = static_cast<int64_t>(options.Get<double>("memory_limit", 0.0));
  training.layout = options.Get<std::string>("layout", "");
  options.Finish();
  progress.Train(std::move(training));
}

void Step(trainer::Progress& progress, Options options) {
  trainer::StepProgress step;
  step.step = options.Require<int64_t>("step");
  step.epoch = options.Get<double>("epoch", 0.0);
  step.tokens = options.Get<int64_t>("tokens", 0);
  step.loss = options.Find<double>("loss");
  step.learning_rate = options.Find<double>("lr");
  step.grad_norm = options.Find<double>("grad_norm");
  options.Finish();
  progress.Step(step);
}

// Pushes the durations of all phases as a list of { name, seconds }.
Pushed PushSpent(lua_State* L, trainer::Progress& progress) {
  const auto& spent = progress.spent();
  lua_createtable(L, static_cast<int>(spent.size()), 0);
  for (size_t i = 0; i < spent.size(); ++i) {
    lua_createtable(L, 0, 2);
    Value<std::string>::Push(L, spent[i].first);
    lua_setfield(L, -2, "name");
    lua_pushnumber(L, spent[i].second);
    lua_setfield(L, -2, "seconds");
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return {1};
}

std::shared_ptr<trainer::EventFile> MakeEventFile(Options options) {
  trainer::EventFileOptions wanted;
  wanted.folder = options.Require<std::string>("folder");
  wanted.first_step = options.Get<int64_t>("first_step", 0);
  options.Finish();
  return base::ValueOrThrow(trainer::EventFile::Create(std::move(wanted)));
}

absl::Status AddScalars(trainer::EventFile& file, int64_t step,
                        std::map<std::string, double> scalars) {
  return file.AddScalars(step, {scalars.begin(), scalars.end()});
}

std::chrono::milliseconds Seconds(const char* name, double seconds) {
  TORCH_CHECK_VALUE(seconds >= 0 && seconds <= 3600, name, ": expected 0 to 3600 seconds, got ",
                    seconds);
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::shared_ptr<LineProgram> StartLineProgram(lua_State* L, std::vector<std::string> command,
                                              std::optional<double> grace) {
  const Host& host = HostOf(L);
  if (host.sandbox)
    base::ThrowIfError(absl::PermissionDeniedError("--sandbox: a report starts no program"));
  if (host.embedded)
    base::ThrowIfError(absl::FailedPreconditionError("an embedded runtime starts no program"));
  return base::ValueOrThrow(LineProgram::Start(
      {.command = std::move(command), .grace = Seconds("grace", grace.value_or(0))}));
}

double MatmulRate(Options options) {
  const at::ScalarType dtype = DtypeNamed(options.Get<std::string>("dtype", "fp32"));
  const c10::Device device(options.Get<std::string>("device", "cpu"));
  const double seconds = options.Get<double>("seconds", 0.05);
  const std::optional<double> peak = options.Find<double>("device_peak");
  options.Finish();
  if (!device.is_cuda() || !peak) return trainer::MeasureMatmulRate(dtype, device, seconds);
  return trainer::MeasureMatmulRate(
      dtype, device, seconds, static_cast<int64_t>(*peak) - trainer::ReadDeviceMemory().allocated);
}

}  // namespace

void AddReports(lua_State* L) {
  Class<base::WorkCount>::Register(
      L, "WorkCount",
      {
          {"add", Bind<[](base::WorkCount& count, int64_t more) { count.done += more; }>},
          {"expect", Bind<[](base::WorkCount& count, int64_t more) { count.total += more; }>},
          {"counted", Bind<[](base::WorkCount& count) { return count.done.load(); }>},
      });
  Class<trainer::Progress>::Register(
      L, "Progress",
      {
          {"train", Bind<&Train>},
          {"step", Bind<&Step>},
          {"report", Bind<[](trainer::Progress& progress, int64_t step, std::string text) {
             progress.Report(step, text);
           }>},
          {"keep_log", Bind<[](trainer::Progress& progress, std::string path, bool append) {
             return progress.KeepLog(path, append);
           }>},
          {"log_only", Bind<[](trainer::Progress& progress, std::string text) {
             progress.LogOnly(text);
           }>},
          {"end_training", Bind<[](trainer::Progress& progress) { progress.EndTraining(); }>},
          {"line",
           Bind<[](trainer::Progress& progress, std::string text) { progress.Line(text); }>},
          {"event",
           Bind<[](trainer::Progress& progress, std::string json) { progress.Event(json); }>},
          {"begin_phase",
           Bind<[](trainer::Progress& progress, std::string name, std::optional<std::string> unit,
                   std::optional<std::shared_ptr<base::WorkCount>> count) {
             progress.BeginPhase(name, unit.value_or(""), count.value_or(nullptr));
           }>},
          {"end_phase", Bind<[](trainer::Progress& progress) { progress.EndPhase(); }>},
          {"spent", Bind<&PushSpent>},
      });
  Class<trainer::RunRecord>::Register(
      L, "RunRecord",
      {{"write", Bind<[](trainer::RunRecord& record, std::string json) {
          return record.Write(json);
        }>}});
  Class<trainer::EventFile>::Register(
      L, "EventFile",
      {
          {"scalars", Bind<&AddScalars>},
          {"histogram",
           Bind<[](trainer::EventFile& file, int64_t step, std::string tag,
                   std::vector<double> values) { return file.AddHistogram(step, tag, values); }>},
          {"text", Bind<[](trainer::EventFile& file, int64_t step, std::string tag,
                           std::string text) { return file.AddText(step, tag, text); }>},
          {"hyperparameters", Bind<[](trainer::EventFile& file,
                                      std::map<std::string, trainer::Hyperparameter> parameters,
                                      std::vector<std::string> metrics) {
             return file.AddHyperparameters(parameters, metrics);
           }>},
          {"finish",
           Bind<[](trainer::EventFile& file, int64_t step) { return file.AddEnd(step); }>},
          {"path", Bind<[](trainer::EventFile& file) { return file.path(); }>},
      });
  Class<trainer::LineAppender>::Register(
      L, "LineFile",
      {{"append",
        Bind<[](trainer::LineAppender& file, std::string line) { return file.Append(line); }>}});
  Class<LineProgram>::Register(
      L, "LineProgram",
      {
          {"send", Bind<[](LineProgram& program, std::string line) { program.Send(line); }>},
          {"finish", Bind<[](LineProgram& program, std::optional<double> patience) {
             program.Finish(Seconds("patience", patience.value_or(30)));
           }>},
          {"notes", Bind<[](LineProgram& program) { return program.TakeNotes(); }>},
      });
  AddToModule(L, "moonring.trainer",
              {
                  {"work_count", Bind<[] { return std::make_shared<base::WorkCount>(); }>},
                  {"progress", Bind<&MakeProgress>},
                  {"run_record", Bind<&OpenRunRecord>},
                  {"event_file", Bind<&MakeEventFile>},
                  {"line_file", Bind<[](std::string path, std::optional<bool> keep) {
                     return std::make_shared<trainer::LineAppender>(base::ValueOrThrow(
                         trainer::LineAppender::Open(path, keep.value_or(false))));
                   }>},
                  {"line_program", Bind<&StartLineProgram>},
                  {"matmul_rate", Bind<&MatmulRate>},
              });
}

}  // namespace moonring::lua
