#ifndef MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_
#define MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_

// Where activations are stored between forward and backward, depending on the key
// activation_offload and the compute device. The run, the memory plan and the log all use this one
// rule.
//
//   activation_offload   on the CPU                     on another device
//   absent               kMemory                        kMemory
//   cpu                  kMemory: already on the CPU    kHost (host_store.h)
//   disk                 kDisk (disk_store.h)           refused

#include <memory>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/blocks/activation_store.h"

namespace moonring::model {

enum class ActivationPlace { kMemory, kHost, kDisk };  // kMemory: on the compute device

absl::string_view PlaceName(ActivationPlace place);  // "memory", "host", "disk"

// INVALID_ARGUMENT for another word, and for disk if the device is not the CPU.
absl::StatusOr<ActivationPlace> PlaceOfActivations(const std::optional<std::string>& offload,
                                                   c10::DeviceType device);

// The store for the place; null for kMemory. `folder` is required for disk (INVALID_ARGUMENT
// without it). Fails as DiskStore::Create does.
absl::StatusOr<std::shared_ptr<ActivationStore>> OpenActivationStore(
    const std::optional<std::string>& offload, const std::optional<std::string>& folder,
    c10::Device device);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_
