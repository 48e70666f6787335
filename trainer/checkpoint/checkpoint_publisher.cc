#include "trainer/checkpoint/checkpoint_publisher.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/files/confinement.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "trainer/checkpoint/checkpoint_manifest.h"
#include "trainer/checkpoint/durable_file.h"

namespace moonring::trainer {
namespace {

namespace fs = std::filesystem;
constexpr absl::Duration kPoll = absl::Milliseconds(20), kHurry = absl::Seconds(2);

std::string MarkOf(const std::string& draft, int rank) {
  return absl::StrCat(draft, "/sealed-", rank, ".json");
}

}  // namespace

CheckpointPublisher::CheckpointPublisher(PublisherOptions options) : options_(std::move(options)) {
  const auto run = [this, confined = base::CurrentConfinement()] {
    result_ = base::TryTorch([&] {
      const base::ConfinedScope scope(confined);
      return Run();
    });
    finished_ = true;
    finished_.notify_all();
  };
  try {
    thread_ = std::thread(run);
  } catch (const std::system_error&) {  // without a thread, training waits for the disk here
    run();
  }
}

CheckpointPublisher::~CheckpointPublisher() {
  hurry_ = true;
  if (thread_.joinable()) thread_.join();
}

const absl::Status& CheckpointPublisher::result() const {
  finished_.wait(false);
  return result_;
}

std::string CheckpointPublisher::NoteKey(int rank) const {
  return absl::StrCat("checkpoint/", options_.step, "/", rank);
}

absl::Status CheckpointPublisher::Seal(CheckpointManifest& mine) const {
  ASSIGN_OR_RETURN(mine.files, SealFiles(options_.draft, options_.names));
  if (options_.held == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto written, SealFiles(*options_.held));
  mine.files.insert(written.begin(), written.end());
  return absl::OkStatus();
}

absl::Status CheckpointPublisher::Run() {
  CheckpointManifest mine{.step = options_.step};
  const absl::Status sealed = base::TryTorch([&] { return Seal(mine); });
  if (options_.ranks == 1)
    return sealed.ok() ? PublishCheckpoint(options_.draft, options_.folder, mine) : sealed;
  if (!sealed.ok()) mine = {.step = options_.step, .failure = std::string(sealed.message())};
  const absl::Status marked = base::TryTorch(
      [&] { return base::WriteWhole(MarkOf(options_.draft, options_.rank), ManifestText(mine)); });
  if (options_.rank == 0) return marked.ok() ? Publish() : marked;
  if (marked.ok()) return sealed;
  const absl::Status& why = sealed.ok() ? marked : sealed;
  if (options_.notes != nullptr)
    (void)options_.notes->Leave(NoteKey(options_.rank), std::string(why.message()));
  return why;
}

absl::Status CheckpointPublisher::Publish() {
  CheckpointManifest whole{.step = options_.step};
  const absl::Time begin = absl::Now();
  absl::Time hurried = absl::InfiniteFuture();
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::string mark = MarkOf(options_.draft, rank);
    std::error_code code;
    while (!fs::exists(mark, code)) {
      if (options_.notes != nullptr) {
        if (const auto why = options_.notes->Take(NoteKey(rank)))
          return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", *why));
      }
      const absl::Time now = absl::Now();
      if (hurry_ && hurried == absl::InfiniteFuture()) hurried = now;
      if (now > begin + options_.patience || now > hurried + kHurry) {
        return absl::DeadlineExceededError(absl::StrCat("rank ", rank,
                                                        "'s files did not reach the disk in ",
                                                        absl::FormatDuration(now - begin)));
      }
      absl::SleepFor(kPoll);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadFile(mark));
    ASSIGN_OR_RETURN(const CheckpointManifest of_rank, ParseManifest(text), mark);
    if (!of_rank.failure.empty())
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", of_rank.failure));
    whole.files.insert(of_rank.files.begin(), of_rank.files.end());
  }
  for (int rank = 0; rank < options_.ranks; ++rank) {
    std::error_code ignored;
    fs::remove(MarkOf(options_.draft, rank), ignored);
  }
  return PublishCheckpoint(options_.draft, options_.folder, whole);
}

}  // namespace moonring::trainer
