#include "trainer/reports/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/files/confinement.h"
#include "base/files/output_file.h"

namespace moonring::trainer {
namespace {

// Writes over the bytes of an existing file. A few more bytes fit into its last block.
bool Overwrite(const std::string& path, const std::string& text) {
  if (!base::CheckWriting(path).ok()) return false;
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  const auto size = static_cast<ssize_t>(text.size());
  const bool is_written =
      pwrite(file, text.data(), text.size(), 0) == size && ftruncate(file, size) == 0;
  return close(file) == 0 && is_written;
}

}  // namespace

absl::Status RunRecord::Write(const std::string& json) {
  base::OrderedJson read = base::OrderedJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object())
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected a JSON object"));
  contents_ = std::move(read);
  return Save();
}

absl::Status RunRecord::End(const std::string& state, const std::string& reason) {
  if (!contents_.is_object() || contents_.value("state", "") != "running")
    return absl::OkStatus();
  contents_["state"] = state;
  contents_["reason"] = reason;
  contents_["ended"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  return Save();
}

absl::Status RunRecord::Save() {
  base::OrderedJson ordered = {{"state", contents_["state"]}, {"reason", contents_["reason"]}};
  for (const auto& [name, value] : contents_.items()) ordered[name] = value;
  const std::string text =
      ordered.dump(2, ' ', false, base::OrderedJson::error_handler_t::replace) + "\n";
  const absl::Status written = base::WriteWhole(path_, text);
  if (written.ok() || Overwrite(path_, text)) return absl::OkStatus();
  return written;
}

}  // namespace moonring::trainer
