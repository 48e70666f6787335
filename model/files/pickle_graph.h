#ifndef MOONRING_MODEL_FILES_PICKLE_GRAPH_H_
#define MOONRING_MODEL_FILES_PICKLE_GRAPH_H_

// Reads a Python pickle without running anything: a stack machine for the opcodes that data need
// (protocols 2 to 5), which records calls instead of making them. A pickle may name any function,
// including os.system; here only names that the caller allows are accepted, and the functions are
// never called:
//
//   Read("c torch.Size ( 2 3 t 0x85 R .", {"torch.Size"})  ->  call of torch.Size with ((2, 3))
//
// Values may reference one another arbitrarily, also in cycles, so a caller that traverses them
// must bound its traversal. Cost: linear in the pickle's size; memory at most 100 times the size.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::model {

using PickleRef = uint32_t;  // index of a value in its graph

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
  bool has_state = false;  // the pickle set a state on this object (discarded)
  PickleRef callee = 0;    // for a call: the kGlobal that is called
  // For a call: the kTuple of its arguments. For a kPersistent: the description of an object
  // outside the pickle.
  PickleRef arguments = 0;
  int64_t number = 0;      // value of a bool or int; floats are not kept
  absl::string_view text;  // a text, or the name of a kGlobal
  // The elements of a tuple or list. For a dictionary, or for an object that a call created: the
  // items that were set in it, as key, value, key, value, ...
  std::vector<PickleRef> items;
};

class PickleGraph {
 public:
  // Reads `pickle`. `allowed` are the permitted function and class names
  // ("collections.OrderedDict"). INVALID_ARGUMENT, with a message that begins with `where`, if the
  // pickle has any other name, is truncated or inconsistent, or uses an unknown opcode. `pickle`
  // and `allowed` must outlive the graph, which points into their memory.
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
