// What sources with tensors begin with, parsed once for all of them (cc.bzl).

#include "third_party/precompiled/base.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
