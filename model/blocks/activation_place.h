#ifndef MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_
#define MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_

// Where activations are stored between forward and backward. This depends on the configuration key
// activation_offload and on the compute device. Training, the memory estimate and the log all use
// this rule.
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

// `offload` is the value of activation_offload. INVALID_ARGUMENT if it is neither "cpu" nor "disk",
// or if it is "disk" and the device is not the CPU.
absl::StatusOr<ActivationPlace> PlaceOfActivations(const std::optional<std::string>& offload,
                                                   c10::DeviceType device);

// Creates the store for PlaceOfActivations(offload, device); null for kMemory. `folder` is where
// "disk" stores activations (INVALID_ARGUMENT if "disk" has no folder). Returns the errors of
// DiskStore::Create.
absl::StatusOr<std::shared_ptr<ActivationStore>> OpenActivationStore(
    const std::optional<std::string>& offload, const std::optional<std::string>& folder,
    c10::Device device);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ACTIVATION_PLACE_H_
