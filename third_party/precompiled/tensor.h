// What sources that hold tensors but compute nothing with them begin with, parsed once for all of
// them (cc.bzl).

#include "third_party/precompiled/base.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
