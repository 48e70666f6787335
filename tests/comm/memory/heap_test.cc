#include "comm/memory/heap.h"

#include <vector>

#include "gtest/gtest.h"
#include "trainer/resources.h"

namespace moonring::comm {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSlack =
    2 * kMiB;  // what the kernel has not counted yet, and what else the process does

using trainer::AnonymousBytes;

// Small pieces, which malloc keeps when they are freed. Of sixteen one stays: the heap's end stays
// where it is.
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

TEST(Heap, CountsWhatIsUsedAndGivesBackWhatIsNot) {
  const HeapBytes before = ReadHeap();
  Pieces pieces(1024);
  EXPECT_NEAR(ReadHeap().used, before.used + pieces.bytes(), kSlack);
  const int64_t freed = pieces.FreeMost(), kept = AnonymousBytes();
  EXPECT_NEAR(ReadHeap().held, before.held + freed, kSlack);
  ReleaseHeap(/*seconds=*/0.001);  // some 4 MiB's
  EXPECT_NEAR(AnonymousBytes(), kept, kSlack);
  ReleaseHeap(/*seconds=*/0.1);
  EXPECT_NEAR(AnonymousBytes(), kept - freed, 4 * kSlack);
}

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
  Pieces many(2048);
  const int64_t freed = many.FreeMost(), kept = AnonymousBytes();
  TrimHeap();
  EXPECT_NEAR(AnonymousBytes(), kept - freed, 4 * kSlack);
}

}  // namespace
}  // namespace moonring::comm
