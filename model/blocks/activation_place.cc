#include "model/blocks/activation_place.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/blocks/disk_store.h"
#include "model/blocks/host_store.h"

namespace moonring::model {

absl::string_view PlaceName(ActivationPlace place) {
  constexpr absl::string_view kNames[] = {"memory", "host", "disk"};
  return kNames[static_cast<int>(place)];
}

absl::StatusOr<ActivationPlace> PlaceOfActivations(const std::optional<std::string>& offload,
                                                   c10::DeviceType device) {
  const bool on_cpu = device == c10::DeviceType::CPU;
  if (!offload.has_value()) return ActivationPlace::kMemory;
  if (*offload == "cpu") return on_cpu ? ActivationPlace::kMemory : ActivationPlace::kHost;
  if (*offload != "disk") {
    return absl::InvalidArgumentError(
        absl::StrCat("activation_offload: expected cpu or disk, got '", *offload, "'"));
  }
  if (on_cpu) return ActivationPlace::kDisk;
  return absl::InvalidArgumentError(
      "activation_offload: disk is for the CPU alone; on a GPU cpu stores activations in the "
      "host's "
      "memory");
}

absl::StatusOr<std::shared_ptr<ActivationStore>> OpenActivationStore(
    const std::optional<std::string>& offload, const std::optional<std::string>& folder,
    c10::Device device) {
  ASSIGN_OR_RETURN(const ActivationPlace place, PlaceOfActivations(offload, device.type()));
  if (folder.has_value() != (place == ActivationPlace::kDisk)) {
    return absl::InvalidArgumentError(
        "activation_dir is for activation_offload: disk, which requires one");
  }
  if (place == ActivationPlace::kHost) return std::make_shared<HostStore>(device);
  if (place == ActivationPlace::kDisk) return DiskStore::Create(*folder);
  return nullptr;
}

}  // namespace moonring::model
