#include "model/blocks/composed_scope.h"

#include <utility>

namespace moonring::model {
namespace {

thread_local bool composes = false;

}  // namespace

ComposedScope::ComposedScope() : before_(std::exchange(composes, true)) {}

ComposedScope::~ComposedScope() { composes = before_; }

bool Composes() { return composes; }

}  // namespace moonring::model
