#ifndef MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_
#define MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_

// Rows of attention's products x = q . k to probabilities, and back; score_rows.h has the
// equations, the shapes and what they cost. Some threads take a row: forward in one pass over the
// memory, its scores held in shared memory up to kHeldScores of them; backward element by element.
//
// A row of p may begin where its row of x does (and one of ds where that of y does): the threads of
// a row write only over numbers that all of them have read.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kHeldScores = 8192;  // more are read twice

struct ScoreRowsCall {
  int64_t tiles, heads, queries, keys;  // rows: tiles x heads x queries
  const int64_t* seen_B4;
  double scale, softcap;  // softcap 0: none
  const float* x;
  int64_t x_stride;  // floats from a row to the next
  Type type;         // of p and ds: bf16 or fp16
  void* p;
  int64_t p_stride;
  bool has_room;  // whether all rows have room for 16 bytes' multiples of p's numbers
};

struct ScoreSums {
  float *sum, *lse;  // one a row
};

struct ScoreGradients {
  const float* y;
  int64_t y_stride;
  const float *lse, *delta;  // one a row
  void* ds;
  int64_t ds_stride;
};

void LaunchScoreRows(const ScoreRowsCall& call, const ScoreSums& sums, void* stream);
void LaunchScoreRowsBackward(const ScoreRowsCall& call, const ScoreGradients& gradients,
                             void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_
