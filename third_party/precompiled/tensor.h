// The precompiled header of sources that store tensors but call no operators (cc.bzl).

#include "third_party/precompiled/base.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
