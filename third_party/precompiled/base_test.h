// The precompiled header of tests without tensors (cc.bzl).

#include "third_party/precompiled/base.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
