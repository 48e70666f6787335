#ifndef MOONRING_MODEL_FILES_PICKLE_GRAPH_H_
#define MOONRING_MODEL_FILES_PICKLE_GRAPH_H_

// A pickle of Python's, read without running anything: a stack machine of the opcodes that data
// need (protocols 2 to 5), which leaves calls uncalled. A pickle may name any function, os.system
// too; here a name must be one that the reader allows, and stands for itself:
//
//   Read("c torch.Size ( 2 3 t 0x85 R .", {"torch.Size"})  ->  call of torch.Size with ((2, 3))
//
// The values may hold one another in any shape, in circles too: whoever walks them bounds the walk.
// Cost: linear in the pickle's size, memory 100 times that at most.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::model {

using PickleRef = uint32_t;  // a value's place in its graph

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kTuple,
    kList,
    kDict,
    kGlobal,
    kCall,
    kPersistent
  };

  Kind kind = Kind::kNone;
  bool has_state = false;  // state was set on it, and dropped
  PickleRef callee = 0;    // of a call: a kGlobal
  PickleRef arguments =
      0;  // of a call: a kTuple; of a kPersistent, what lies outside of the pickle: its description
  int64_t number = 0;            // of a truth value or whole number; other numbers are not kept
  absl::string_view text;        // of a text, and the name of a kGlobal
  std::vector<PickleRef> items;  // of a tuple or list; of a dictionary or call: key, value, key,
                                 // value, ... that were set in it
};

class PickleGraph {
 public:
  // `allowed` are the names that may be there ("collections.OrderedDict"); any other is refused as
  // soon as it is met. INVALID_ARGUMENT opening with `where`, also where the pickle is cut off,
  // does not fit together or needs an opcode that is not known here. The graph looks into `pickle`
  // and `allowed`.
  static absl::StatusOr<PickleGraph> Read(absl::string_view pickle,
                                          absl::Span<const absl::string_view> allowed,
                                          const std::string& where);

  PickleRef root() const { return root_; }
  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }
  bool IsCallOf(const PickleValue& value, absl::string_view name) const;
  std::string Described(const PickleValue& value) const;  // "a whole number", "torch.Size(...)"

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  PickleRef root_ = 0;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_PICKLE_GRAPH_H_
