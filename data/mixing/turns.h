// Which of several data sets gives the next row, for ever: each in turn, or drawn: the first whose
// cumulated probability is above the generator's random(), as numpy's choice(n, p) has it.
#ifndef MOONRING_DATA_MIXING_TURNS_H_
#define MOONRING_DATA_MIXING_TURNS_H_

#include <cstdint>
#include <vector>

#include "data/mixing/numpy_random.h"

namespace moonring::data {

class Turns {
 public:
  // No probabilities: in turn. Else one for each data set.
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
