#ifndef MOONRING_LUA_REPORT_GIVE_WAY_H_
#define MOONRING_LUA_REPORT_GIVE_WAY_H_

// Makes this process yield to others: for the process that answers the chat of `moonring watch`
// beside a training.

namespace moonring::lua {

// Gives all threads of this process, and those that they start, the lowest priority (nice 19), and
// makes the process the first one that the kernel ends if memory runs out.
void GiveWay();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_GIVE_WAY_H_
