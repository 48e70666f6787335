#ifndef MOONRING_COMM_THREADS_BATCH_THREADS_H_
#define MOONRING_COMM_THREADS_BATCH_THREADS_H_

// A scope whose new threads are scheduled as batch work (SCHED_BATCH of Linux's sched(7)): a thread
// that wakes up waits for a free core and does not take the core of a thread that runs.
//
// Gloo's loop threads need it. A message wakes the receiver's loop thread; by the usual policy it
// may take the core of the very thread that holds the connection's lock. The loop then finds the
// lock taken and polls again, until its time slice ends. Where ranks have fewer cores than threads
// this was an eighth of all processor time: 35 attention tests of up to 4 ranks on 2 cores took
// 55 s, and 46 s without it.

namespace moonring::comm {

class BatchThreads {
 public:
  // Changes the calling thread's policy, which new threads inherit, and only where that is the
  // usual one, SCHED_OTHER: a policy that the user has chosen stays.
  BatchThreads();
  ~BatchThreads();  // the calling thread has its own policy again; to be called by the same thread

  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  const bool changed_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_THREADS_BATCH_THREADS_H_
