#ifndef MOONRING_TRAINER_CHECKPOINT_MANIFEST_H_
#define MOONRING_TRAINER_CHECKPOINT_MANIFEST_H_

// What tells a whole checkpoint from a broken one: manifest.json, written last, in a folder that
// gets its name only then.
//
//   DIR/checkpoint-120.partial   while it is written, by all ranks
//   DIR/checkpoint-120           once every file is on the disk and the manifest too
//   manifest.json                {"format": 1, "step": 120, "files": {"model.safetensors":
//                                {"bytes": 538090408, "crc32": "0f1e2d3c"}, ...}}
//
// So a checkpoint that lacks its manifest, or a file, or a byte, was never whole or is not any
// more.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files/held_files.h"

namespace moonring::trainer {

struct SealedFile {
  int64_t bytes = 0;
  uint32_t crc32 = 0;  // zlib's
  friend bool operator==(const SealedFile&, const SealedFile&) = default;
};

struct CheckpointManifest {
  static constexpr int kFormat = 1;
  static constexpr char kFileName[] = "manifest.json";

  int64_t step = 0;
  std::map<std::string, SealedFile> files;  // by name
  std::string failure;  // of a rank's part (checkpoint_publisher.h): why it is none
};

std::string ManifestText(const CheckpointManifest& manifest);
// DATA_LOSS where the text is no manifest; UNIMPLEMENTED of another format.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

// Flushes files of a folder to the disk, and reads them once for their sums (about 1 GB a second of
// what the disk's cache holds).
absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(const std::string& folder,
                                                            const std::vector<std::string>& names);

// The same of files that are in memory: writes them out, flushes and sums them.
absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(base::HeldFiles& files);

// Writes the manifest into `draft`, whose files are sealed, and gives the folder its name; what had
// that name goes. DATA_LOSS where a file is not of the size that was sealed.
absl::Status PublishCheckpoint(const std::string& draft, const std::string& folder,
                               const CheckpointManifest& manifest);

// Removes a checkpoint, if it is there: first its name (FOLDER.removed), so that at no moment a
// part of it bears that of a whole one.
absl::Status RemoveCheckpoint(const std::string& folder);

// The manifest of a whole checkpoint, every file read. Else what is wrong with it: NOT_FOUND (no
// manifest), DATA_LOSS (a file that is missing, of another size or of another content; a manifest
// that is none), UNIMPLEMENTED (of another format). The message begins with the folder.
absl::StatusOr<CheckpointManifest> CheckCheckpoint(const std::string& folder);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_MANIFEST_H_
