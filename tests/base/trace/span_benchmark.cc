// The CPU time of a span in nanoseconds, with and without recording: the best of several rounds of
// many spans. docs/traces.md compares it with a step and its number of spans.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/trace/recorder.h"

namespace moonring::base {
namespace {

constexpr SpanKind kTile = {
    .name = "tile", .category = "compute", .numbers = {"rows", "columns", "heads"}};
constexpr int kSpans = 100000;

double NanosecondsASpan() {
  const int64_t start = SteadyNanoseconds();
  for (int i = 0; i < kSpans; ++i) const TraceSpan span(kTile, {i, i, 1});
  return static_cast<double>(SteadyNanoseconds() - start) / kSpans;
}

void Run() {
  double recorded = 1e9, not_recorded = 1e9;
  for (int turn = 0; turn < 10; ++turn) {
    not_recorded = std::min(not_recorded, NanosecondsASpan());
    const auto recorder = std::make_shared<TraceRecorder>();
    recorder->Start();
    recorded = std::min(recorded, NanosecondsASpan());
    recorder->Stop();
  }
  std::printf("a span that is recorded takes %.0f ns, one that is not %.1f ns\n", recorded,
              not_recorded);
}

}  // namespace
}  // namespace moonring::base

int main() { moonring::base::Run(); }
