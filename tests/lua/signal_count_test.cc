// Counting of signals, with signals in the kernel's form that the test constructs: no signal is
// sent, and the clock is a number.

#include "lua/host/signal_count.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace moonring::lua {
namespace {

siginfo_t Typed() {
  siginfo_t info = {};
  info.si_signo = SIGINT;
  info.si_code = SI_KERNEL;
  return info;
}

siginfo_t Sent(pid_t by) {
  siginfo_t info = Typed();
  info.si_code = SI_USER;
  info.si_pid = by;
  return info;
}

siginfo_t PassedOn(pid_t by, int times) {
  siginfo_t info = Sent(by);
  info.si_code = SI_QUEUE;
  info.si_value.sival_int = times;
  return info;
}

TEST(SignalCount, KeysCountHoweverQuick) {
  SignalCount count;
  EXPECT_EQ(count.Add(Typed(), 100), 1);
  EXPECT_EQ(count.Add(Typed(), 100), 2);
}

// A signal that a process sends twice at once counts once: timeout(1) signals its child and then
// its own group, which contains the child.
TEST(SignalCount, WhatAProcessSendsTwiceAtOnceCountsOnce) {
  SignalCount count;
  EXPECT_EQ(count.Add(Sent(1), 0), 1);
  EXPECT_EQ(count.Add(Sent(1), 0), 1);
  EXPECT_EQ(count.Add(Sent(1), 1999), 1);
  EXPECT_EQ(count.Add(Sent(1), 2000), 2);
  EXPECT_EQ(count.Add(Sent(1), 3999), 2);
  EXPECT_EQ(count.Add(Sent(1), 4000), 3);
}

// A signal from a terminal or a scheduler to the group counts once: the rank gets it directly and
// from its launcher, in either order.
TEST(SignalCount, TheLauncherAndTheGroupAreOne) {
  SignalCount typed, sent, late;
  EXPECT_EQ(typed.Add(Typed(), 0), 1);
  EXPECT_EQ(typed.Add(PassedOn(getppid(), 1), 0), 1);
  EXPECT_EQ(typed.Add(PassedOn(getppid(), 2), 0), 2);
  EXPECT_EQ(typed.Add(Typed(), 0), 2);
  EXPECT_EQ(sent.Add(PassedOn(getppid(), 1), 0), 1);
  EXPECT_EQ(sent.Add(Sent(1), 0), 1);
  EXPECT_EQ(late.Add(PassedOn(getppid(), 2), 0), 2);  // the first one was merged into it
}

TEST(SignalCount, WhoIsNotTheLauncherCountsAsAnyProcess) {
  SignalCount count;
  EXPECT_EQ(count.Add(PassedOn(getpid(), 7), 0), 1);
  EXPECT_EQ(count.Add(PassedOn(getpid(), 7), 1), 1);
  EXPECT_EQ(count.Add(PassedOn(getppid(), -1), 1), 1);
}

}  // namespace
}  // namespace moonring::lua
