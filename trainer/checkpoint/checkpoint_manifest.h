#ifndef MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_MANIFEST_H_
#define MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_MANIFEST_H_

// Makes complete checkpoints distinguishable from incomplete ones: manifest.json is written last,
// and only then does the folder get its final name.
//
//   DIR/checkpoint-120.partial   while all ranks write it
//   DIR/checkpoint-120           once all files and the manifest are on the disk
//   manifest.json                {"format": 1, "step": 120, "files": {"model.safetensors":
//                                {"bytes": 538090408, "crc32": "0f1e2d3c"}, ...}}
//
// A checkpoint without a manifest, or with a file that is missing or differs from the manifest, is
// incomplete or damaged.

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
  uint32_t crc32 = 0;  // as computed by zlib
  friend bool operator==(const SealedFile&, const SealedFile&) = default;
};

struct CheckpointManifest {
  static constexpr int kFormat = 1;
  static constexpr char kFileName[] = "manifest.json";

  int64_t step = 0;
  std::map<std::string, SealedFile> files;  // by name
  // in a rank's own manifest (checkpoint_publisher.h): why it could not write its files
  std::string failure;
};

std::string ManifestText(const CheckpointManifest& manifest);
// DATA_LOSS if the text is not a manifest; UNIMPLEMENTED for another format version.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

// Flushes files of a folder to the disk and reads them once to compute their checksums (about 1 GB
// per second from the page cache).
absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(const std::string& folder,
                                                            const std::vector<std::string>& names);

// Writes files that are held in memory to the disk, flushes them and computes their checksums.
absl::StatusOr<std::map<std::string, SealedFile>> SealFiles(base::HeldFiles& files);

// Writes the manifest into `draft`, whose files were sealed by SealFiles, and renames `draft` to
// `folder`, replacing an existing one. DATA_LOSS if a file's size differs from the sealed one.
absl::Status PublishCheckpoint(const std::string& draft, const std::string& folder,
                               const CheckpointManifest& manifest);

// Removes a checkpoint if it exists. It is first renamed to FOLDER.removed, so that a partly
// removed checkpoint never has the name of a complete one.
absl::Status RemoveCheckpoint(const std::string& folder);

// Returns the manifest of a complete checkpoint after reading every file. Errors, which begin with
// the folder: NOT_FOUND (no manifest), DATA_LOSS (a missing file, wrong size or content, an invalid
// manifest), UNIMPLEMENTED (another format version).
absl::StatusOr<CheckpointManifest> CheckCheckpoint(const std::string& folder);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_CHECKPOINT_MANIFEST_H_
