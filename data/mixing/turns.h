// An endless sequence of data set indices that decides which data set gives the next row: round
// robin, or drawn like numpy's choice(n, p): the first data set whose cumulative probability
// exceeds random().
#ifndef MOONRING_DATA_MIXING_TURNS_H_
#define MOONRING_DATA_MIXING_TURNS_H_

#include <cstdint>
#include <vector>

#include "data/mixing/numpy_random.h"

namespace moonring::data {

class Turns {
 public:
  // `probabilities`: empty for round robin, otherwise one per data set.
  Turns(int64_t datasets, const std::vector<double>& probabilities, NumpyRandom random);

  int64_t Next();

  struct State {
    int64_t turns;
    NumpyRandom::State random;
  };
  State state() const { return {next_, random_.state()}; }
  void set_state(const State& state);

 private:
  int64_t datasets_;
  std::vector<double> cumulated_;
  NumpyRandom random_;
  int64_t next_ = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_TURNS_H_
