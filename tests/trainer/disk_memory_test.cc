#include "trainer/sharding/disk_memory.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/ATen.h>

#include "tests/testing/status_matchers.h"

namespace moonring::trainer {
namespace {

using ::testing::HasSubstr;

// Returns this process's resident memory of one kind (RssAnon, RssFile or RssShmem), in KiB.
int64_t Resident(const std::string& kind) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kind + ":", 0) == 0) return std::stoll(line.substr(kind.size() + 1));
  }
  return -1;
}

TEST(DiskMemoryTest, HoldsNumbersOfEachDtype) {
  auto memory = DiskMemory::Create(::testing::TempDir());
  ASSERT_OK(memory);
  std::vector<at::Tensor> tensors;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const int64_t numel : {0, 1, 1000, 4096, 100001}) {
      auto tensor = (*memory)->Zeros(numel, dtype);
      ASSERT_OK(tensor);
      EXPECT_TRUE(tensor->eq(0).all().item<bool>());
      tensor->copy_(at::arange(numel) % 251);
      (*memory)->Rest(*tensor);
      tensors.push_back(*tensor);
    }
  }
  memory->reset();  // the tensors keep it
  for (const at::Tensor& tensor : tensors)
    EXPECT_TRUE(at::equal(tensor, (at::arange(tensor.numel()) % 251).to(tensor.scalar_type())));
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("optimizer_state")));
  }
}

// 64 MiB are written in pieces of 1 MiB, one after another: only a few pieces at a time are
// resident, and none of them as private memory of the process.
TEST(DiskMemoryTest, WhatRestsIsNotResident) {
  auto memory = DiskMemory::Create(::testing::TempDir());
  ASSERT_OK(memory);
  constexpr int64_t kPiece = 1 << 18, kPieces = 64;
  at::Tensor tensor = *(*memory)->Zeros(kPiece * kPieces, at::kFloat);
  const int64_t anonymous = Resident("RssAnon"),
                mapped = Resident("RssFile") + Resident("RssShmem");
  for (int64_t i = 0; i < kPieces; ++i) {
    at::Tensor piece = tensor.narrow(0, i * kPiece, kPiece);
    piece.fill_(static_cast<double>(i));
    (*memory)->Rest(piece);
  }
  EXPECT_LE(Resident("RssAnon") - anonymous, 4 << 10);
  EXPECT_LE(Resident("RssFile") + Resident("RssShmem") - mapped, 16 << 10);
  for (int64_t i = 0; i < kPieces; ++i)
    EXPECT_EQ(tensor[i * kPiece + 7].item<float>(), static_cast<float>(i));
}

TEST(DiskMemoryTest, ADiskTooSmallIsAnError) {
  EXPECT_THAT(DiskMemory::Create("/no/such/folder").status().message(),
              HasSubstr("offload_optimizer: /no/such/folder: a file cannot be made"));
  auto memory = DiskMemory::Create(::testing::TempDir());
  ASSERT_OK(memory);
  // A limit on the file size (RLIMIT_FSIZE) gives the same error as a full disk, in the same call.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = (*memory)->Zeros(1 << 20, at::kFloat);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_THAT(refused.status().message(),
              HasSubstr("4194304 bytes more than 0 cannot be reserved"));
  EXPECT_OK((*memory)->Zeros(1 << 10, at::kFloat));
}

}  // namespace
}  // namespace moonring::trainer
