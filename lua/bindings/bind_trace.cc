// Lua bindings for traces of what a rank does and when (docs/traces.md): a recorder, spans of
// scripts, and the file of all ranks.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/status/torch_status.h"
#include "base/trace/recorder.h"
#include "comm/mesh.h"
#include "comm/rank_clocks.h"
#include "comm/trace_file.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/bindings/bindings.h"

namespace moonring::lua {
namespace {

// The recorder of a rank, and the spans that scripts have started and not ended.
struct Recorder {
  std::shared_ptr<base::TraceRecorder> trace;
  bool is_on = false;
  std::vector<base::SpanEvent> open;
  comm::ClockOffset before, after;
};

comm::ClockOffset Measure(Recorder& recorder, comm::Mesh& mesh) {
  return base::ValueOrThrow(comm::MeasureClock(
      mesh.world(), [&] { return recorder.trace->Now(); }, comm::SteadyClockId()));
}

// Ends the open spans from number `number` on, including those that a script left open after an
// error.
void Finish(Recorder& recorder, int64_t number) {
  const int64_t end = recorder.trace->Now();
  while (static_cast<int64_t>(recorder.open.size()) >= std::max<int64_t>(number, 1)) {
    base::SpanEvent span = recorder.open.back();
    recorder.open.pop_back();
    span.end = end;
    if (recorder.is_on) recorder.trace->Thread()->Add(span);
  }
}

int64_t BeginSpan(Recorder& recorder, const std::string& name, const std::string& category,
                  std::optional<int64_t> number) {
  recorder.open.push_back(
      {.kind = &recorder.trace->Named(name, category, number.has_value() ? name : ""),
       .begin = recorder.trace->Now(),
       .numbers = {number.value_or(0)}});
  return static_cast<int64_t>(recorder.open.size());
}

void Start(Recorder& recorder, comm::Mesh& mesh) {
  TORCH_CHECK_VALUE(!recorder.is_on, "trace: it records already");
  recorder.before = Measure(recorder, mesh);
  recorder.trace->Start();
  recorder.is_on = true;
}

void Stop(Recorder& recorder, comm::Mesh& mesh) {
  TORCH_CHECK_VALUE(recorder.is_on, "trace: it does not record");
  Finish(recorder, 1);
  recorder.trace->Stop();
  recorder.is_on = false;
  recorder.after = Measure(recorder, mesh);
}

std::tuple<int64_t, double> WriteSpans(Recorder& recorder, comm::Mesh& mesh, Options options) {
  comm::TraceFileOptions wanted{.path = options.Require<std::string>("path"),
                                .details = options.Get<std::string>("details", "{}"),
                                .before = recorder.before,
                                .after = recorder.after};
  options.Finish();
  TORCH_CHECK_VALUE(!recorder.is_on, "trace: it still records");
  const comm::TraceFacts facts =
      base::ValueOrThrow(comm::WriteTrace(*recorder.trace, mesh.world(), wanted));
  return {facts.left_out, static_cast<double>(facts.uncertainty) * 1e-9};
}

}  // namespace

void OpenTrace(lua_State* L) {
  Class<Recorder>::Register(L, "Recorder",
                            {
                                {"start", Bind<&Start>},
                                {"stop", Bind<&Stop>},
                                {"begin", Bind<&BeginSpan>},
                                {"finish", Bind<&Finish>},
                                {"write", Bind<&WriteSpans>},
                            });
  PushModule(L, "moonring.trace",
             {{"recorder", Bind<[](Options options) {
                 base::TraceRecorder::Options wanted;
                 wanted.most = options.Get<int64_t>("most", wanted.most);
                 options.Finish();
                 TORCH_CHECK_VALUE(wanted.most > 0, "most: expected above 0 spans, got ",
                                   wanted.most);
                 auto recorder = std::make_shared<Recorder>();
                 recorder->trace = std::make_shared<base::TraceRecorder>(std::move(wanted));
                 return recorder;
               }>}});
}

}  // namespace moonring::lua
