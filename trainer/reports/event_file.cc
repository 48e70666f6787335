#include "trainer/reports/event_file.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files/confinement.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

constexpr absl::string_view kPrefix = "events.out.tfevents.";

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "host";
}

// Removes events after `step` from the files of earlier processes of the run.
absl::Status CutEarlierFiles(const std::string& folder, int64_t step) {
  RETURN_IF_ERROR(base::CheckReading(folder));
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (!absl::StartsWith(entry.path().filename().string(), kPrefix)) continue;
    ASSIGN_OR_RETURN(const std::string contents, ReadFile(entry.path().string()));
    const absl::string_view kept = UpToStep(contents, step);
    if (kept.size() < contents.size())
      RETURN_IF_ERROR(base::WriteWhole(entry.path().string(), kept));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(EventFileOptions options) {
  if (options.first_step > 0)
    RETURN_IF_ERROR(CutEarlierFiles(options.folder, options.first_step), "trainer.event_file");
  const std::string stem = absl::StrCat(
      options.folder, "/", kPrefix, absl::StrFormat("%010d", absl::ToUnixSeconds(options.clock())),
      ".", HostName(), ".", getpid());
  std::string path = stem;
  std::error_code code;
  for (int i = 1; std::filesystem::exists(path, code); ++i) path = absl::StrCat(stem, ".", i);
  ASSIGN_OR_RETURN(LineAppender file, LineAppender::Open(path, /*keep=*/false),
                   "trainer.event_file");
  std::unique_ptr<EventFile> events(
      new EventFile(std::move(options), std::move(path), std::move(file)));
  const EventTime at = events->At(events->options_.first_step + 1);
  RETURN_IF_ERROR(events->Add(VersionEvent(at.seconds)));
  if (events->options_.first_step > 0) RETURN_IF_ERROR(events->Add(RestartEvent(at)));
  return events;
}

EventTime EventFile::At(int64_t step) const {
  return {.seconds = absl::ToDoubleSeconds(options_.clock() - absl::UnixEpoch()), .step = step};
}

absl::Status EventFile::AddScalars(int64_t step,
                                   const std::vector<std::pair<std::string, double>>& scalars) {
  return Add(ScalarsEvent(At(step), scalars));
}

absl::Status EventFile::AddHistogram(int64_t step, const std::string& tag,
                                     const std::vector<double>& values) {
  return Add(HistogramEvent(At(step), tag, values));
}

absl::Status EventFile::AddText(int64_t step, const std::string& tag, const std::string& text) {
  return Add(TextEvent(At(step), tag, text));
}

absl::Status EventFile::AddHyperparameters(const std::map<std::string, Hyperparameter>& parameters,
                                           const std::vector<std::string>& metrics) {
  RETURN_IF_ERROR(Add(ExperimentEvent(At(0), parameters, metrics)));
  return Add(SessionStartEvent(At(0), parameters));
}

absl::Status EventFile::AddEnd(int64_t step) { return Add(SessionEndEvent(At(step))); }

}  // namespace moonring::trainer
