// Where activations are stored until the backward, by key and device: checks each row of the table
// in activation_place.h. (The stores have their own tests.)

#include "model/blocks/activation_place.h"

#include <optional>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr c10::DeviceType kCpuType = c10::DeviceType::CPU, kGpuType = c10::DeviceType::CUDA;

TEST(ActivationPlace, GoesByKeyAndDevice) {
  struct Row {
    std::optional<std::string> offload;
    c10::DeviceType device;
    ActivationPlace place;
  };
  const Row rows[] = {
      {std::nullopt, kCpuType, ActivationPlace::kMemory},
      {std::nullopt, kGpuType, ActivationPlace::kMemory},
      {"cpu", kCpuType, ActivationPlace::kMemory},
      {"cpu", kGpuType, ActivationPlace::kHost},
      {"disk", kCpuType, ActivationPlace::kDisk},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.offload.value_or("nothing") + " on " + c10::DeviceTypeName(row.device, true));
    ASSERT_OK_AND_ASSIGN(const ActivationPlace place, PlaceOfActivations(row.offload, row.device));
    EXPECT_EQ(PlaceName(place), PlaceName(row.place));
  }
  EXPECT_THAT(PlaceOfActivations("disk", kGpuType),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("activation_offload: disk is for the CPU alone")));
  EXPECT_THAT(PlaceOfActivations("ram", kCpuType),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("activation_offload: expected cpu or disk, got 'ram'")));
}

TEST(ActivationPlace, AStoreIsOpenedWhereSomethingIsMoved) {
  const testing::ScratchFolder folder;
  const c10::Device cpu(kCpuType);
  ASSERT_OK_AND_ASSIGN(const auto none, OpenActivationStore(std::nullopt, std::nullopt, cpu));
  EXPECT_EQ(none, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto there_already, OpenActivationStore("cpu", std::nullopt, cpu));
  EXPECT_EQ(there_already, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto disk, OpenActivationStore("disk", folder.path(), cpu));
  ASSERT_NE(disk, nullptr);
  const auto stored = disk->Put(at::ones({4}));
  EXPECT_EQ(stored->Get().sum().item<float>(), 4.0F);
  EXPECT_THAT(OpenActivationStore("disk", std::nullopt, cpu),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("activation_dir is for")));
  EXPECT_THAT(OpenActivationStore("cpu", folder.path(), cpu),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("activation_dir is for")));
}

}  // namespace
}  // namespace moonring::model
