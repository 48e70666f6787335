#include "base/memory/heap.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "trainer/reports/resources.h"

// A function of TCMalloc, which heap_tcmalloc_test is linked with.
extern "C" __attribute__((weak)) void MallocExtension_ReleaseToSystem(size_t bytes);

namespace moonring::base {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSlack =
    2 * kMiB;  // bytes that the kernel has not counted yet, and other allocations of the process

using trainer::AnonymousBytes;

// Small allocations, which malloc keeps when they are freed. One of sixteen is never freed, so that
// the heap cannot shrink at its end.
class Pieces {
 public:
  static constexpr int64_t kPiece = 64 << 10;
  explicit Pieces(int64_t count) : pieces_(count) {
    for (auto& piece : pieces_) piece.assign(kPiece, 1);
  }
  int64_t bytes() const { return static_cast<int64_t>(pieces_.size()) * kPiece; }
  int64_t FreeMost() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (i % 16 != 15) std::vector<char>().swap(pieces_[i]);
    }
    return bytes() / 16 * 15;
  }

 private:
  std::vector<std::vector<char>> pieces_;
};

bool IsTcmalloc() { return MallocExtension_ReleaseToSystem != nullptr; }

TEST(Heap, CountsWhatIsUsedAndGivesBackWhatIsNot) {
  const HeapBytes before = ReadHeap();
  Pieces pieces(1024);
  EXPECT_NEAR(ReadHeap().used, before.used + pieces.bytes(), kSlack);
  const int64_t freed = pieces.FreeMost(), kept = AnonymousBytes();
  EXPECT_NEAR(ReadHeap().held, before.held + freed, kSlack);
  ReleaseHeap(/*seconds=*/0.001);  // enough for about 4 MiB
  EXPECT_NEAR(AnonymousBytes(), kept, kSlack);
  ReleaseHeap(/*seconds=*/0.1);
  EXPECT_NEAR(AnonymousBytes(), kept - freed, 4 * kSlack);
}

// TCMalloc returns memory beyond kLeastHeld to the system; the C library returns all of it.
TEST(Heap, TrimsWhereMuchIsHeld) {
  ReleaseHeap();
  {
    Pieces few(512);  // 32 MiB
    few.FreeMost();
    const int64_t kept = AnonymousBytes();
    TrimHeap();
    EXPECT_NEAR(AnonymousBytes(), kept, kSlack);
  }
  ReleaseHeap();
  Pieces many(12288);  // 768 MiB
  const int64_t freed = many.FreeMost(), kept = AnonymousBytes();
  ASSERT_GT(freed, kLeastHeld + 8 * kSlack);
  TrimHeap();
  const int64_t left = IsTcmalloc() ? kLeastHeld : 0;
  EXPECT_NEAR(AnonymousBytes(), kept - freed + left, 4 * kSlack);
}

}  // namespace
}  // namespace moonring::base
