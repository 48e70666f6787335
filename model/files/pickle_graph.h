#ifndef MOONRING_MODEL_FILES_PICKLE_GRAPH_H_
#define MOONRING_MODEL_FILES_PICKLE_GRAPH_H_

// Reads a Python pickle without running anything: a stack machine for the opcodes that data need
// (protocols 2 to 5), which records calls instead of making them. A pickle may name any function,
// including os.system; here only names that the caller allows are accepted, and they remain names:
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
  bool has_state = false;  // state was set on it, and discarded
  PickleRef callee = 0;    // for a call: the kGlobal that is called
  // For a call: a kTuple. For a kPersistent: the description of an object outside the pickle.
  PickleRef arguments = 0;
  int64_t number = 0;      // value of a bool or int; floats are not kept
  absl::string_view text;  // a text, or the name of a kGlobal
  // Elements of a tuple or list; for a dictionary or call: key, value, key, value, ... that were
  // set in it.
  std::vector<PickleRef> items;
};

class PickleGraph {
 public:
  // `allowed` are the permitted names ("collections.OrderedDict"); any other name is refused
  // immediately. INVALID_ARGUMENT, with a message that begins with `where`, also if the pickle is
  // truncated, inconsistent or uses an unknown opcode. The graph references the memory of `pickle`
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
