#ifndef MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_PUBLISHER_H_
#define MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_PUBLISHER_H_

// Completes the saving of a checkpoint on a background thread while training continues. Before it
// starts, each rank's files are copied to memory (base/files/held_files.h) or, if there was no
// room, written to the page cache.
//
//   each rank   writes its files to the disk, flushes them and computes checksums, then writes the
//               checksums or its error to sealed-RANK.json in the draft folder. If that fails, it
//               leaves the error in a note for rank 0 (comm/rank_notes.h)
//   rank 0      waits for the files of all ranks, writes the manifest and renames the folder
//
// No rank waits in a collective: if a run fails in the meantime, this checkpoint is still
// completed, provided that its processes live long enough. Any failure, including exceptions (out
// of memory), is returned by result(): the checkpoint is lost, but the run continues.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/files/held_files.h"
#include "comm/rank_notes.h"
#include "trainer/checkpoint/checkpoint_manifest.h"

namespace moonring::trainer {

struct PublisherOptions {
  // `draft`: the folder that all ranks wrote to. `folder`: its final name; an existing folder is
  // replaced.
  std::string draft, folder;
  std::vector<std::string> names;         // files of this rank
  std::shared_ptr<base::HeldFiles> held;  // this rank's files in memory; null: none
  int64_t step = 0;
  int rank = 0, ranks = 1;
  std::shared_ptr<comm::RankNotes> notes;       // carries errors to rank 0; may be null
  absl::Duration patience = absl::Minutes(10);  // how long rank 0 waits for the other ranks' disks
};

class CheckpointPublisher {
 public:
  explicit CheckpointPublisher(PublisherOptions options);
  ~CheckpointPublisher();  // waits for this rank's files, and up to two seconds for other ranks
  CheckpointPublisher(const CheckpointPublisher&) = delete;
  CheckpointPublisher& operator=(const CheckpointPublisher&) = delete;

  bool done() const { return finished_; }
  // Waits for the result. On rank 0, OK means that the checkpoint is complete; on other ranks, that
  // this rank's files are on the disk. DEADLINE_EXCEEDED if another rank's files are late.
  const absl::Status& result() const;

 private:
  absl::Status Run();
  absl::Status Seal(CheckpointManifest& mine) const;
  absl::Status Publish();
  std::string NoteKey(int rank) const;

  const PublisherOptions options_;
  absl::Status result_;
  std::atomic<bool> hurry_ = false, finished_ = false;
  std::thread thread_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_PUBLISHER_H_
