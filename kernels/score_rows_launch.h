#ifndef MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_
#define MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_

// Converts rows of attention's products x = q . k to softmax weights p; the backward also computes
// the scores' gradients ds, from y = dout . v. score_rows.h has the equations, shapes and costs.
// Several threads share a row. The forward reads memory once and keeps the scores in shared memory,
// for up to kHeldScores scores; the backward is elementwise.
//
// A row of p may share memory with its row of x (and one of ds with that of y), beginning at the
// same address: the threads of a row overwrite only numbers that all of them have read.

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kHeldScores = 8192;  // longer rows are read twice

struct ScoreRowsCall {
  int64_t tiles, heads, queries, keys;  // rows: tiles x heads x queries
  const int64_t* seen_B4;
  double scale, softcap;  // softcap 0: none
  const float* x;
  int64_t x_stride;  // in floats, between rows
  Type type;         // of p and ds: bf16 or fp16
  void* p;
  int64_t p_stride;
  bool has_room;  // whether every row has room to round its length up to 8 numbers
};

struct ScoreSums {
  float *sum, *lse;  // one per row
};

struct ScoreGradients {
  const float* y;
  int64_t y_stride;
  const float *lse, *delta;  // one per row
  void* ds;
  int64_t ds_stride;
};

void LaunchScoreRows(const ScoreRowsCall& call, const ScoreSums& sums, void* stream);
void LaunchScoreRowsBackward(const ScoreRowsCall& call, const ScoreGradients& gradients,
                             void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_SCORE_ROWS_LAUNCH_H_
