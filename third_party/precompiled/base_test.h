// What tests that know no tensor begin with, parsed once for all of them (cc.bzl).

#include "third_party/precompiled/base.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
