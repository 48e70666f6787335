#include "base/threads/small_work.h"

#include <ATen/Parallel.h>

#include "gtest/gtest.h"

namespace moonring::base {
namespace {

int ThreadsWithin(int64_t rows, int64_t elements) {
  const SmallWorkScope small(rows, elements);
  return at::get_num_threads();
}

TEST(SmallWorkTest, RunsInOneThreadWhatIsSmall) {
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  EXPECT_EQ(ThreadsWithin(/*rows=*/64, /*elements=*/30'000), 1);
  EXPECT_EQ(ThreadsWithin(/*rows=*/64, /*elements=*/3'500'000), 4)
      << "large matrices take long to read";
  EXPECT_EQ(ThreadsWithin(/*rows=*/8'192, /*elements=*/30'000), 4) << "many rows are work";
  EXPECT_EQ(at::get_num_threads(), 4);
  {
    const SmallWorkScope outer(1, 1);
    EXPECT_EQ(ThreadsWithin(1, 1), 1);
    EXPECT_EQ(at::get_num_threads(), 1);
  }
  EXPECT_EQ(at::get_num_threads(), 4);
  at::set_num_threads(before);
}

}  // namespace
}  // namespace moonring::base
