// Limits of one rendering, so that no template can hang or exhaust memory or stack: steps (one per
// evaluated node, visited value, eight names looked up, 64 bytes of text read, or 16 bytes searched
// or changed), bytes of all texts and lists created, and nesting depth. Exceeding a limit throws an
// Error (RESOURCE_EXHAUSTED) that names it.
#ifndef MOONRING_DATA_TEXT_JINJA_BUDGET_H_
#define MOONRING_DATA_TEXT_JINJA_BUDGET_H_

#include <cstdint>

#include "data/text/jinja/error.h"

namespace moonring::data::jinja {

struct Limits {
  int64_t steps = 50'000'000;
  int64_t bytes = int64_t{1} << 29;
  int64_t depth = 500;  // of nested calls, and of nested values
};

class Budget {
 public:
  explicit Budget(const Limits& limits)
      : limits_(limits), steps_(limits.steps), bytes_(limits.bytes) {}

  void Step() {
    if (--steps_ < 0) Exhausted("steps", limits_.steps);
  }
  // Charges for text that is compared, copied or counted.
  void Read(int64_t bytes) { Take(bytes / 64 + 1); }
  // Charges for text that is processed by code points or searched.
  void Scan(int64_t bytes) { Take(bytes / 16 + 1); }
  // Charges for names compared in a lookup.
  void LookAt(int64_t names) { Take(names / 8); }
  // Charges for bytes about to be allocated.
  void Make(int64_t bytes) {
    if (bytes < 0 || bytes > bytes_) Exhausted("bytes of texts and lists", limits_.bytes);
    bytes_ -= bytes;
  }
  // Charges for `count` elements of `size` bytes each that are about to be allocated.
  void Make(int64_t count, int64_t size) {
    if (count > 0 && size > 0 && count > bytes_ / size)
      Exhausted("bytes of texts and lists", limits_.bytes);
    Make(count * size);
  }

  // Increases the nesting depth by one during this object's lifetime.
  class Deeper {
   public:
    explicit Deeper(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.depth)
        Exhausted("calls or values within one another", budget_.limits_.depth);
      ++budget_.depth_;
    }
    ~Deeper() { --budget_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Budget& budget_;
  };

  int64_t most_depth() const { return limits_.depth; }

 private:
  void Take(int64_t steps) {
    if ((steps_ -= steps) < 0) Exhausted("steps", limits_.steps);
  }
  [[noreturn]] static void Exhausted(const char* what, int64_t most) {
    throw Error(absl::StatusCode::kResourceExhausted,
                absl::StrCat("takes more than ", most, " ", what));
  }

  const Limits limits_;
  int64_t steps_, bytes_;
  int64_t depth_ = 0;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_BUDGET_H_
