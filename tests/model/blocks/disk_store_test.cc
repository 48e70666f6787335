#include "model/blocks/disk_store.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status/torch_status.h"
#include "tests/testing/all_close.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DiskStoreTest, GivesBackTheBits) {
  at::manual_seed(1);
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto store, DiskStore::Create(folder.path()));
  std::vector<at::Tensor> wanted = {
      at::randn({300, 100}),     at::randn({1000, 7, 9}).to(at::kBFloat16),
      at::randn({400, 500}).t(), at::randn({2, 3}),
      at::zeros({0, 5}),         at::randint(1 << 20, {70000}, at::kLong)};
  std::vector<std::unique_ptr<StoredActivation>> stored;
  for (const at::Tensor& each : wanted) stored.push_back(store->Put(each.clone()));
  for (size_t i = wanted.size(); i-- > 0;) {
    EXPECT_TRUE(BitEqual(stored[i]->Get(), wanted[i])) << i;
    EXPECT_TRUE(BitEqual(stored[i]->Get(), wanted[i])) << i << ", once more";
    const at::Tensor outlives = stored[i]->Get();
    stored[i].reset();
    EXPECT_TRUE(BitEqual(outlives, wanted[i])) << i << ", its place given up";
  }
  EXPECT_EQ(store->stored_bytes(), 0);
}

// 40 tensors of 8 MiB: the program keeps only a few of them in memory, the folder shows no file,
// and the disk space is freed at the end.
TEST(DiskStoreTest, MemoryAndDisk) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto store, DiskStore::Create(folder.path()));
  constexpr int64_t kBytes = 8 << 20, kCount = 40;
  const moonring::testing::AllocatorWatch memory;
  std::vector<std::unique_ptr<StoredActivation>> stored;
  for (int64_t i = 0; i < kCount; ++i)
    stored.push_back(store->Put(at::full({kBytes / 4}, static_cast<double>(i), at::kFloat)));
  EXPECT_LE(memory.peak_bytes(),
            (DiskStore::kUnwritten + 2) * kBytes);  // waiting, being written, and the newest one
  EXPECT_EQ(store->stored_bytes(), kCount * kBytes);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  for (int64_t i = kCount - 1; i >= 0; --i) {
    EXPECT_EQ(stored[i]->Get().sum(at::kDouble).item<double>(),
              static_cast<double>(i) * (kBytes / 4));
    stored[i].reset();
    EXPECT_EQ(store->stored_bytes(), i * kBytes);
  }
  EXPECT_LE(memory.live_bytes(), kBytes / 8);
}

TEST(DiskStoreTest, SayWhereItFails) {
  EXPECT_THAT(
      DiskStore::Create("/nowhere/at/all"),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("activation_offload: /nowhere/at/all: expected a folder on a disk")));
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_THAT(
        DiskStore::Create("/dev/shm"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/dev/shm: is in memory itself")));
  }
}

// A full disk, simulated by a limit on file sizes, makes writing fail on the store's thread. The
// program gets the error at the next call and continues.
TEST(DiskStoreTest, ReportsAFullDisk) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto store, DiskStore::Create(folder.path()));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto good = store->Put(at::ones({1 << 17}));
  const auto stored = store->Put(at::ones({1 << 20}));
  absl::Status status = base::TryTorch([&] { stored->Get(); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(folder.path()), HasSubstr("writing 4.0 MiB, 4.5 MiB in all")));
  EXPECT_FALSE(base::TryTorch([&] { store->Put(at::ones({1 << 20})); }).ok());
}

}  // namespace
}  // namespace moonring::model
