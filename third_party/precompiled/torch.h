// What sources that call operators begin with, parsed once for all of them (cc.bzl).

#include "third_party/precompiled/tensor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
