#ifndef MOONRING_TRAINER_CHECKPOINT_PUBLISHER_H_
#define MOONRING_TRAINER_CHECKPOINT_PUBLISHER_H_

// Ends the saving of a checkpoint on a thread of its own, while training goes on. What ranks wrote
// lies in memory by then (base/files/held_files.h), or, where that had no room, in the kernel's
// cache of the disk.
//
//   each rank   writes what it holds to the disk, flushes and sums its files, then leaves the sums,
//   or what went wrong, in the draft:
//               sealed-RANK.json
//               A rank that cannot write this file leaves rank 0 a note (comm/rank_notes.h).
//   rank 0      waits for those of all ranks, writes the manifest and gives the folder its name
//
// No rank waits in a call of another: a run that fails meanwhile still ends with this checkpoint
// whole, as long as its ranks have time to end. Whatever fails here, an exception too (short
// memory), is the result: it costs this checkpoint, not the run.

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
#include "trainer/checkpoint_manifest.h"

namespace moonring::trainer {

struct PublisherOptions {
  std::string draft,
      folder;  // the folder that all ranks wrote into, and its name to be; one of that name goes
  std::vector<std::string> names;         // this rank's files
  std::shared_ptr<base::HeldFiles> held;  // those of this rank that are in memory; null: none
  int64_t step = 0;
  int rank = 0, ranks = 1;
  std::shared_ptr<comm::RankNotes> notes;       // of the ranks; may be null
  absl::Duration patience = absl::Minutes(10);  // of rank 0 with the other ranks' disks
};

class CheckpointPublisher {
 public:
  explicit CheckpointPublisher(PublisherOptions options);
  ~CheckpointPublisher();  // waits for this rank's own files, and for other ranks' two seconds at
                           // most
  CheckpointPublisher(const CheckpointPublisher&) = delete;
  CheckpointPublisher& operator=(const CheckpointPublisher&) = delete;

  bool done() const { return finished_; }
  // Waits. On rank 0 OK says that the checkpoint is whole; elsewhere that this rank's files are on
  // the disk. DEADLINE_EXCEEDED where a rank's are not in time.
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

#endif  // MOONRING_TRAINER_CHECKPOINT_PUBLISHER_H_
